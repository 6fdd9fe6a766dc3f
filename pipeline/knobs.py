"""The knobs of the papers pipeline: whom to ask, how politely, and how much one document may cost."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from pydantic import Field, SecretStr

from queuemgr.knobs import DJANGO_SETTINGS, Knobs, forget_on_change
from queuemgr.redaction import keep_secret


class PipelineKnobs(Knobs):
    """The knobs of the papers pipeline."""

    http_max_conn: int = Field(
        128, ge=1, le=10_000, description="HTTP connections per worker process"
    )
    http_keepalive: int = Field(64, ge=0, le=10_000, description="of these, kept open when idle")
    http_timeout: float = Field(60, gt=0, description="seconds for a connect, a read, a write")
    fetch_max_bytes: int = Field(200 << 20, ge=1024, description="bytes of the largest PDF taken")
    fetch_deadline: float = Field(300, gt=0, description="seconds a download may take in all")
    allow_private_addresses: bool = Field(
        False, description="fetch from private and local addresses"
    )
    contact_email: str = Field("", description="address told to Unpaywall and in the User-Agent")
    arxiv_url: str = Field("https://export.arxiv.org", description="base URL of arXiv")
    unpaywall_url: str = Field("https://api.unpaywall.org", description="base URL of Unpaywall")
    crossref_url: str = Field("https://api.crossref.org", description="base URL of Crossref")
    llm_base_url: str = Field(
        "", description="OpenAI-compatible endpoint, up to /v1; empty: local analyser"
    )
    llm_api_key: SecretStr = Field(SecretStr(""), description="key of the endpoint")
    llm_model: str = Field("", description="model the endpoint is asked for")
    llm_timeout: float = Field(180, gt=0, description="seconds for one whole answer")
    page_seconds: float = Field(20, gt=0, description="seconds one page may take to read")
    document_seconds: float = Field(120, gt=0, description="seconds one document may take to read")
    extract_memory: int = Field(
        1 << 30, ge=1 << 27, description="bytes of memory for reading a PDF"
    )
    ocr_engine: Literal["auto", "rapidocr", "tesseract", "remote"] = Field(
        "auto", description="what reads pages without text; auto: the best there is"
    )
    ocr_base_url: str = Field(
        "", description="OpenAI-compatible vision endpoint, up to /v1; empty: read locally"
    )
    ocr_api_key: SecretStr = Field(SecretStr(""), description="key of the vision endpoint")
    ocr_model: str = Field(
        "allenai/olmOCR-2-7B-1025", description="model the vision endpoint is asked for"
    )
    ocr_max_tokens: int = Field(8000, ge=256, description="tokens the text of a page may have")
    ocr_inflight: int = Field(
        32, ge=1, le=512, description="pages of one document at the endpoint at once"
    )
    ocr_window: int = Field(
        0,
        ge=0,
        le=1024,
        description="pages read ahead of the oldest unfinished one; 0: twice those at once",
    )
    ocr_timeout: float = Field(180, gt=0, description="seconds for the whole answer about a page")
    ocr_max_retries: int = Field(3, ge=0, le=20, description="more tries for a page that failed")
    ocr_base_delay: float = Field(
        1, ge=0, le=3600, description="seconds before a page's second try; doubles"
    )
    ocr_max_delay: float = Field(
        60, ge=0, le=3600, description="seconds before a page's next try, at most"
    )
    ocr_languages: str = Field(
        "", description="what Tesseract is to read, as in eng+deu; empty: not known"
    )
    ocr_page_seconds: float = Field(
        120, gt=0, description="seconds one page may take a local OCR engine"
    )
    ocr_document_seconds: float = Field(
        1800, gt=0, description="seconds one document may take a local OCR engine"
    )
    ocr_threads: int = Field(1, ge=1, le=64, description="CPU threads of one OCR process")
    ocr_drawers: int = Field(
        1, ge=1, le=16, description="processes that draw one document's pages for the endpoint"
    )
    max_ocr: int = Field(2, ge=0, description="local OCR steps at once in the fleet; 0: no cap")
    max_ocr_requests: int = Field(
        64, ge=0, description="pages at the vision endpoint at once in the fleet; 0: no cap"
    )
    max_llm: int = Field(
        0, ge=0, description="requests to the model at once in the fleet; 0: no cap"
    )


@lru_cache(maxsize=1)
def pipeline_knobs() -> PipelineKnobs:
    """The pipeline's knobs of this process, read once."""
    knobs = PipelineKnobs.load(DJANGO_SETTINGS)
    keep_secret(knobs.llm_api_key.get_secret_value())
    keep_secret(knobs.ocr_api_key.get_secret_value())
    return knobs


forget_on_change(pipeline_knobs)
