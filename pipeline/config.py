"""The settings of the papers pipeline: sources, endpoints, concurrency, and limits per document."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator

from pipeline.model_prices import EXAMPLE, ModelPrice, prices_in
from pipeline.steps.analyse.chunk_sizes import MIN_CHUNK_TOKENS, chunk_tokens_for
from pipeline.steps.analyse.prompts import OVERHEAD_TOKENS
from pipeline.steps.identify import host_key
from pipeline.steps.resolve.source_names import FOR_DOIS, FOR_METADATA
from queuemgr import BadInput
from queuemgr.extend.settings import DJANGO_SETTINGS, SettingsGroup, read_once

NOBODY = "none"
"""Instead of a list of services: an empty setting is one that is not set."""


PICTURE_FORMATS = ("jpeg", "png")
"""In which a page that is one picture may be passed on to a vision endpoint."""


class PipelineSettings(SettingsGroup):
    """The settings of the papers pipeline."""

    http_max_conn: int = Field(128, ge=1, le=10_000, description="HTTP connections per worker process")
    http_keepalive: int = Field(
        64, ge=0, le=10_000, description="idle HTTP connections kept open per worker process"
    )
    http_timeout: float = Field(60, gt=0, description="seconds for each connect, read and write")
    fetch_max_bytes: int = Field(
        200 << 20, ge=1024, le=1 << 50, description="largest PDF that is downloaded, in bytes"
    )
    fetch_deadline: float = Field(300, gt=0, description="seconds for a whole download")
    fetch_min_speed: float = Field(
        1024, ge=0, description="minimum average speed of a download, bytes a second; 0: none"
    )
    fetch_min_speed_seconds: float = Field(30, gt=0, description="seconds over which the speed is averaged")
    allow_private_addresses: bool = Field(False, description="fetch from private and local addresses")
    keep_documents: bool = Field(
        True, description="keep a document and its files when its execution is deleted by retention"
    )
    seed_interval: int = Field(
        120,
        ge=0,
        description="seconds between looks at the inbox and for held documents, by a schedule; 0: with the "
        "other backfills, every SLUICE_STALE_INTERVAL",
    )
    contact_email: str = Field("", description="e-mail address for Unpaywall and the User-Agent")
    arxiv_url: str = Field("https://export.arxiv.org", description="base URL of arXiv")
    unpaywall_url: str = Field("https://api.unpaywall.org", description="base URL of Unpaywall")
    crossref_url: str = Field("https://api.crossref.org", description="base URL of Crossref")
    openalex_url: str = Field("https://api.openalex.org", description="base URL of OpenAlex")
    openalex_api_key: SecretStr = Field(
        SecretStr(""), description="API key of OpenAlex; without one a few look-ups a day"
    )
    semanticscholar_url: str = Field(
        "https://api.semanticscholar.org", description="base URL of Semantic Scholar"
    )
    semanticscholar_api_key: SecretStr = Field(
        SecretStr(""), description="API key of Semantic Scholar; without one its shared pool"
    )
    resolvers: str = Field(
        ",".join(FOR_DOIS), description="sources asked about a DOI, in this order, separated by commas"
    )
    ask_every_source: bool = Field(False, description="ask all sources even if one has named an open PDF")
    arxiv_metadata: bool = Field(
        True, description="ask arXiv for the metadata of its papers, one request each"
    )
    metadata_sources: str = Field(
        "crossref,openalex,arxiv",
        description="services asked about the DOI or arXiv id that a paper prints, in this order, where none "
        "has been asked about it; or `none`",
    )
    lookup_references: int = Field(
        0,
        ge=0,
        le=1_000,
        description="references of each paper that are looked up by their DOIs, at Crossref or OpenAlex "
        "under their limits; 0: none; for one paper: `queue enqueue paper.pdf --lookup-references`",
    )
    grobid_url: str = Field(
        "",
        description="base URL of a GROBID server that reads the references of each paper, such as "
        "http://127.0.0.1:8070; empty: they are read from the print. GROBID is sent every PDF",
    )
    grobid_timeout: float = Field(60, gt=0, description="seconds for GROBID's whole answer about a paper")
    lookup_days: float = Field(30, ge=0, description="days for which an answer with an address is cached")
    lookup_unknown_days: float = Field(1, ge=0, description="days for which any other answer is cached")
    llm_base_url: str = Field("", description="OpenAI-compatible endpoint, up to /v1; empty: local analyser")
    llm_api_key: SecretStr = Field(SecretStr(""), description="API key of the endpoint")
    llm_model: str = Field("", description="name of the model at the endpoint")
    llm_timeout: float = Field(180, gt=0, description="seconds for one whole answer")
    llm_context_tokens: int = Field(
        32_768, ge=2_048, description="context of the model in tokens, prompt and answer together"
    )
    llm_max_tokens: int = Field(
        3_000, ge=100, description="most tokens of an answer; a retry may use twice as many"
    )
    llm_max_chunks: int = Field(32, ge=1, le=1_000, description="most chunks of a long paper")
    llm_chunks_inflight: int = Field(
        4, ge=1, le=64, description="chunks of one paper sent to the model at once"
    )
    paper_schema: str = Field(
        "",
        description="a file with a JSON Schema of what a model extracts from papers that are enqueued "
        "without one of their own",
    )
    page_seconds: float = Field(20, gt=0, description="seconds for reading or drawing one page")
    document_seconds: float = Field(
        120, gt=0, description="seconds for reading one document, and for drawing it beyond 2 s a page"
    )
    extract_memory: int = Field(
        1 << 30, ge=1 << 27, le=1 << 50, description="bytes of memory for reading a PDF"
    )
    extract_pages: int = Field(
        3000, ge=1, description="most pages read of one PDF; the report says so if it has more"
    )
    require_sandbox: bool = Field(
        False,
        description="read no PDF where the kernel cannot confine the process that does (docs/security.md)",
    )
    ocr_engine: Literal["auto", "rapidocr", "tesseract", "remote"] = Field(
        "auto", description="engine for pages without text; auto: the best available"
    )
    force_ocr: bool = Field(
        False,
        description="read every page by OCR, those with a text layer too; for one document: "
        "`queue enqueue scan.pdf --force-ocr`",
    )
    ocr_base_url: str = Field(
        "", description="OpenAI-compatible vision endpoint, up to /v1; empty: read locally"
    )
    ocr_api_key: SecretStr = Field(SecretStr(""), description="API key of the vision endpoint")
    ocr_model: str = Field("allenai/olmOCR-2-7B-1025", description="name of the model at the vision endpoint")
    ocr_formats: str = Field(
        "jpeg",
        description="formats in which the vision endpoint takes a page that is one picture as it is in the "
        "file, of `jpeg,png` (with `png` also CCITT and JBIG2); or `none`: each page is drawn",
    )
    ocr_max_tokens: int = Field(8000, ge=256, description="most tokens of the text of a page")
    ocr_inflight: int = Field(32, ge=1, le=512, description="pages of one document at the endpoint at once")
    ocr_window: int = Field(
        0,
        ge=0,
        le=1024,
        description="pages read ahead of the oldest unfinished one; 0: twice SLUICE_OCR_INFLIGHT",
    )
    ocr_timeout: float = Field(180, gt=0, description="seconds for the whole answer about a page")
    ocr_max_retries: int = Field(3, ge=0, le=20, description="retries of a page that failed")
    ocr_base_delay: float = Field(
        1, ge=0, le=3600, description="seconds before the first retry of a page; doubles with each"
    )
    ocr_max_delay: float = Field(60, ge=0, le=3600, description="most seconds before a retry of a page")
    ocr_max_wait: float = Field(
        300,
        ge=0,
        le=86_400,
        description="most seconds that `manage.py ocr` waits because an endpoint asks for it; pages that "
        "would have to wait longer fail with RateLimit (in the queue, work waits without a slot instead)",
    )
    ocr_languages: str = Field("", description="languages for Tesseract, such as eng+deu; empty: unknown")
    ocr_page_seconds: float = Field(120, gt=0, description="seconds for one page in a local OCR engine")
    ocr_document_seconds: float = Field(
        1800, gt=0, description="seconds for one document in a local OCR engine"
    )
    ocr_renderers: int = Field(
        0,
        ge=0,
        le=16,
        description="processes that render the pages of one document for the endpoint; 0: one per processor, "
        "at most 4",
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

    model_prices: dict[str, ModelPrice] = Field(
        {}, description="dollars per million tokens by model, and per image, as JSON: " + EXAMPLE
    )
    tokens_per_minute: int = Field(
        0, ge=0, description="tokens a minute at the model, sent and answered; 0: no allowance"
    )
    ocr_tokens_per_minute: int = Field(
        0, ge=0, description="tokens a minute at the vision endpoint; 0: no allowance"
    )
    daily_usd: float = Field(
        0,
        ge=0,
        le=1_000_000,
        description="dollars a day at the model and the vision endpoint together; 0: no allowance",
    )

    @field_validator("model_prices", mode="before")
    @classmethod
    def _prices_are_read(cls, given: Any) -> dict[str, ModelPrice]:
        return prices_in(given)

    @model_validator(mode="after")
    def _context_fits_a_chunk(self) -> Self:
        if chunk_tokens_for(self.llm_context_tokens, self.llm_max_tokens) < MIN_CHUNK_TOKENS:
            raise ValueError(
                f"SLUICE_LLM_MAX_TOKENS={self.llm_max_tokens} leaves no room for a paper in "
                f"SLUICE_LLM_CONTEXT_TOKENS={self.llm_context_tokens}: twice the answer, "
                f"{OVERHEAD_TOKENS} tokens of instructions and {MIN_CHUNK_TOKENS} of paper must fit"
            )
        return self

    @field_validator("arxiv_url", "unpaywall_url", "crossref_url", "openalex_url",
                     "semanticscholar_url", "grobid_url")  # fmt: skip
    @classmethod
    def _url_has_a_host(cls, url: str, info: ValidationInfo) -> str:
        if url == cls.model_fields[str(info.field_name)].default:
            return url  # without importing what reads URLs
        try:
            host_key(url)
        except BadInput as error:
            raise ValueError(f"{error}, such as https://api.example.org") from None
        return url

    @field_validator("resolvers")
    @classmethod
    def _sources_are_known(cls, text: str) -> str:
        if unknown := [name for name in names_in(text) if name not in FOR_DOIS]:
            raise ValueError(f"{unknown[0]!r} is not one of {', '.join(FOR_DOIS)}")
        return text

    @field_validator("metadata_sources")
    @classmethod
    def _services_are_known(cls, text: str) -> str:
        if unknown := [name for name in names_in(text) if name not in (*FOR_METADATA, NOBODY)]:
            raise ValueError(f"{unknown[0]!r} is not one of {', '.join(FOR_METADATA)}")
        return text

    @field_validator("paper_schema")
    @classmethod
    def _schema_can_be_read(cls, path: str) -> str:
        if path:
            from pipeline.steps.analyse.custom_schema import read_schema  # only where there is one

            try:
                read_schema(Path(path).read_bytes()[: 1 << 20])
            except OSError as error:
                raise ValueError(f"{path} cannot be read: {error.strerror}") from None
            except BadInput as error:
                raise ValueError(f"{path}: {error}") from None
        return path

    @field_validator("ocr_formats")
    @classmethod
    def _formats_are_known(cls, text: str) -> str:
        if unknown := [name for name in names_in(text) if name not in (*PICTURE_FORMATS, NOBODY)]:
            raise ValueError(f"{unknown[0]!r} is not one of {', '.join(PICTURE_FORMATS)}")
        return text

    @property
    def services_for_metadata(self) -> tuple[str, ...]:
        """The services to ask about what a paper prints, in order."""
        return tuple(name for name in names_in(self.metadata_sources) if name != NOBODY)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources to ask about a DOI, in order."""
        return names_in(self.resolvers)


def names_in(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list, each once."""
    return tuple(dict.fromkeys(filter(None, (name.strip().lower() for name in text.split(",")))))


@read_once
def pipeline_settings() -> PipelineSettings:
    """The pipeline's settings, read once per process."""
    return PipelineSettings.load(DJANGO_SETTINGS)


def chunks_at_once(config: PipelineSettings) -> int:
    """Chunks of one paper at the model at once: at most as many as the whole fleet may send."""
    return min(config.llm_chunks_inflight, config.max_llm_requests or config.llm_chunks_inflight)
