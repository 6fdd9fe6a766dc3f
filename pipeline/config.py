"""The settings of the papers pipeline: whom to ask, how politely, and how much one document may cost."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from pipeline.steps.analyse.chunks import LEAST_ROOM, room_for
from pipeline.steps.analyse.prompts import OVERHEAD_TOKENS
from pipeline.steps.identify import host_key
from pipeline.steps.resolve.resolve import FOR_DOIS
from queuemgr import BadInput
from queuemgr.extend.secrets import register_secret
from queuemgr.extend.settings import DJANGO_SETTINGS, SettingsGroup, reload_after_reset


class PipelineSettings(SettingsGroup):
    """The settings of the papers pipeline."""

    http_max_conn: int = Field(
        128, ge=1, le=10_000, description="HTTP connections per worker process"
    )
    http_keepalive: int = Field(64, ge=0, le=10_000, description="of these, kept open when idle")
    http_timeout: float = Field(60, gt=0, description="seconds for a connect, a read, a write")
    fetch_max_bytes: int = Field(200 << 20, ge=1024, description="size limit of a PDF in bytes")
    fetch_deadline: float = Field(300, gt=0, description="seconds a download may take in all")
    fetch_min_speed: float = Field(
        1024, ge=0, description="minimum average speed of a download, bytes a second; 0: none"
    )
    fetch_min_speed_seconds: float = Field(
        30, gt=0, description="seconds over which that average is measured"
    )
    allow_private_addresses: bool = Field(
        False, description="fetch from private and local addresses"
    )
    contact_email: str = Field(
        "", description="e-mail address sent to Unpaywall and in the User-Agent"
    )
    arxiv_url: str = Field("https://export.arxiv.org", description="base URL of arXiv")
    unpaywall_url: str = Field("https://api.unpaywall.org", description="base URL of Unpaywall")
    crossref_url: str = Field("https://api.crossref.org", description="base URL of Crossref")
    openalex_url: str = Field("https://api.openalex.org", description="base URL of OpenAlex")
    openalex_api_key: SecretStr = Field(
        SecretStr(""), description="key of OpenAlex; empty: a few look-ups a day"
    )
    semanticscholar_url: str = Field(
        "https://api.semanticscholar.org", description="base URL of Semantic Scholar"
    )
    semanticscholar_api_key: SecretStr = Field(
        SecretStr(""), description="key of Semantic Scholar; empty: its shared rate limit"
    )
    resolvers: str = Field(
        ",".join(FOR_DOIS), description="sources asked about a DOI, in this order, by comma"
    )
    ask_every_source: bool = Field(
        False, description="ask the other sources even if one named an open PDF"
    )
    arxiv_metadata: bool = Field(
        True, description="request metadata from arXiv, one request per paper besides its PDF"
    )
    lookup_days: float = Field(30, ge=0, description="days an answer with an address is cached")
    lookup_unknown_days: float = Field(1, ge=0, description="days any other answer is cached")
    llm_base_url: str = Field(
        "", description="OpenAI-compatible endpoint, up to /v1; empty: local analyser"
    )
    llm_api_key: SecretStr = Field(SecretStr(""), description="key of the endpoint")
    llm_model: str = Field("", description="model requested from the endpoint")
    llm_timeout: float = Field(180, gt=0, description="seconds for one complete answer")
    llm_context_tokens: int = Field(
        32_768,
        ge=2_048,
        description="context window of the model in tokens, prompt and answer together",
    )
    llm_max_tokens: int = Field(
        2_000, ge=100, description="tokens an answer may have; retried once with twice as many"
    )
    llm_max_parts: int = Field(
        32, ge=1, le=1_000, description="parts a long paper may be split into"
    )
    llm_parts_inflight: int = Field(
        4, ge=1, le=64, description="parts of one paper at the model at once"
    )
    page_seconds: float = Field(20, gt=0, description="seconds one page may take to read")
    document_seconds: float = Field(120, gt=0, description="seconds one document may take to read")
    extract_memory: int = Field(
        1 << 30, ge=1 << 27, description="bytes of memory for reading a PDF"
    )
    extract_pages: int = Field(
        3000, ge=1, description="pages read of one PDF; the document reports the rest"
    )
    ocr_engine: Literal["auto", "rapidocr", "tesseract", "remote"] = Field(
        "auto", description="OCR engine for pages without text; auto: the best available"
    )
    ocr_base_url: str = Field(
        "", description="OpenAI-compatible vision endpoint, up to /v1; empty: read locally"
    )
    ocr_api_key: SecretStr = Field(SecretStr(""), description="key of the vision endpoint")
    ocr_model: str = Field(
        "allenai/olmOCR-2-7B-1025", description="model requested from the vision endpoint"
    )
    ocr_max_tokens: int = Field(8000, ge=256, description="tokens the text of a page may have")
    ocr_inflight: int = Field(
        32, ge=1, le=512, description="pages of one document at the endpoint at once"
    )
    ocr_window: int = Field(
        0,
        ge=0,
        le=1024,
        description="pages read ahead of the oldest unfinished one; 0: twice SLUICE_OCR_INFLIGHT",
    )
    ocr_timeout: float = Field(180, gt=0, description="seconds for the complete answer for a page")
    ocr_max_retries: int = Field(3, ge=0, le=20, description="retries of a page that failed")
    ocr_base_delay: float = Field(
        1, ge=0, le=3600, description="seconds before a page's first retry; doubles"
    )
    ocr_max_delay: float = Field(
        60, ge=0, le=3600, description="longest wait before a page's retry, seconds"
    )
    ocr_languages: str = Field(
        "", description="languages for Tesseract, as in eng+deu; empty: unknown"
    )
    ocr_page_seconds: float = Field(
        120, gt=0, description="seconds one page may take a local OCR engine"
    )
    ocr_document_seconds: float = Field(
        1800, gt=0, description="seconds one document may take a local OCR engine"
    )
    ocr_drawers: int = Field(
        1, ge=1, le=16, description="processes that render one document's pages for the endpoint"
    )
    max_per_host: int = Field(4, ge=0, description="slots one host may use; 0: no cap")
    max_per_resolver: int = Field(4, ge=0, description="slots one resolver may use; 0: no cap")
    max_ocr: int = Field(2, ge=0, description="local OCR steps at once in the fleet; 0: no cap")
    max_ocr_requests: int = Field(
        64, ge=0, description="pages at the vision endpoint at once in the fleet; 0: no cap"
    )
    max_llm: int = Field(0, ge=0, description="papers at the model at once in the fleet; 0: no cap")
    max_llm_requests: int = Field(
        0, ge=0, description="requests at the model at once in the fleet; 0: no cap"
    )

    @model_validator(mode="after")
    def _a_paper_has_room(self) -> Self:
        if room_for(self.llm_context_tokens, self.llm_max_tokens) < LEAST_ROOM:
            raise ValueError(
                f"SLUICE_LLM_MAX_TOKENS={self.llm_max_tokens} leaves no room for a paper in "
                f"SLUICE_LLM_CONTEXT_TOKENS={self.llm_context_tokens}: twice the answer, "
                f"{OVERHEAD_TOKENS} and {LEAST_ROOM} of paper must fit"
            )
        return self

    @field_validator("arxiv_url", "unpaywall_url", "crossref_url", "openalex_url",
                     "semanticscholar_url")  # fmt: skip
    @classmethod
    def _url_has_a_host(cls, url: str) -> str:
        try:
            host_key(url)
        except BadInput as error:
            raise ValueError(f"{error}, such as https://api.example.org") from None
        return url

    @field_validator("resolvers")
    @classmethod
    def _sources_are_known(cls, text: str) -> str:
        if unknown := [name for name in named(text) if name not in FOR_DOIS]:
            raise ValueError(f"{unknown[0]!r} is not one of {', '.join(FOR_DOIS)}")
        return text

    @property
    def sources(self) -> tuple[str, ...]:
        """Who is asked about a DOI, in order."""
        return named(self.resolvers)


def named(text: str) -> tuple[str, ...]:
    """The names in a list with commas, each once."""
    return tuple(dict.fromkeys(filter(None, (name.strip().lower() for name in text.split(",")))))


@lru_cache(maxsize=1)
def pipeline_settings() -> PipelineSettings:
    """The pipeline's settings of this process, read once."""
    config = PipelineSettings.load(DJANGO_SETTINGS)
    for secret in (
        config.llm_api_key,
        config.ocr_api_key,
        config.openalex_api_key,
        config.semanticscholar_api_key,
    ):
        register_secret(secret.get_secret_value())
    return config


reload_after_reset(pipeline_settings)


def parts_at_once(config: PipelineSettings) -> int:
    """Parts of one paper at the model at once: never more than the whole fleet may ask."""
    return min(config.llm_parts_inflight, config.max_llm_requests or config.llm_parts_inflight)
