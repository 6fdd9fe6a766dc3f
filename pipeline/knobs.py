"""The knobs of the papers pipeline: whom to ask, how politely, and how much one document may cost."""

from __future__ import annotations

from functools import lru_cache

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
    extract_pages: int = Field(3000, ge=1, description="pages read of one PDF; the rest is named")
    ocr_threads: int = Field(1, ge=1, le=64, description="CPU threads of one OCR process")
    max_ocr: int = Field(2, ge=0, description="OCR steps at once in the fleet; 0: no cap")
    max_llm: int = Field(
        0, ge=0, description="requests to the model at once in the fleet; 0: no cap"
    )


@lru_cache(maxsize=1)
def pipeline_knobs() -> PipelineKnobs:
    """The pipeline's knobs of this process, read once."""
    knobs = PipelineKnobs.load(DJANGO_SETTINGS)
    keep_secret(knobs.llm_api_key.get_secret_value())
    return knobs


forget_on_change(pipeline_knobs)
