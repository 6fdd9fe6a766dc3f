"""What the settings mean for OCR: which engine, how hard the endpoint is asked, and what that costs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pipeline.config import PipelineSettings
from pipeline.steps.llm.client import Tally
from pipeline.steps.llm.endpoint import Endpoint
from pipeline.steps.ocr.ocr import OcrOptions
from pipeline.steps.ocr.page_map import Tempo
from pipeline.steps.ocr.rapidocr import LocalOptions
from pipeline.steps.ocr.vision import RemoteOptions, nothing
from queuemgr.steptools.process_lanes import lanes

KEY = "llm:ocr"
"""The limit that stands for the vision endpoint: its Retry-After, its budget, its pauses."""

REQUESTS = "ocr_requests"
"""The tokens that count pages at the endpoint at once, over all documents."""


def is_remote(config: PipelineSettings) -> bool:
    """Whether pages go to the endpoint."""
    return bool(config.ocr_base_url) and config.ocr_engine in ("auto", "remote")


def pages_at_once(config: PipelineSettings, pages: int) -> int:
    """Pages of one document at the endpoint at once, as few numbers as will do: each makes a route
    of its own in the queue."""
    most = min(config.ocr_inflight, config.max_ocr_requests or config.ocr_inflight)
    return min(most, rounded_up(pages))


def requests_reserved(config: PipelineSettings, pages: int) -> int:
    """Requests a document's OCR may cost: one a page, and room for second tries.

    Nine tries in ten are the only one, so a quarter more, and never less than one page's worth.
    What is not used is given back; when the room is used up failing pages are not tried again, so
    the number is never passed.
    """
    spare = max(config.ocr_max_retries, -(-pages // 4))
    return rounded_up(pages + min(spare, pages * config.ocr_max_retries))


def rounded_up(number: int) -> int:
    """To two binary digits (1, 2, 3, 4, 6, 8, 12, 16, …): at most half as much again."""
    step = 1 << max(0, number.bit_length() - 2)
    return -(-number // step) * step


def tempo(config: PipelineSettings, inflight: int) -> Tempo:
    return Tempo(
        inflight,
        config.ocr_window or 2 * inflight,
        config.ocr_max_retries,
        config.ocr_base_delay,
        config.ocr_max_delay,
    )


def ocr_options(
    config: PipelineSettings,
    *,
    inflight: int | None = None,
    spare: int | None = None,
    patience: float = float("inf"),
    before_request: Callable[[], Awaitable[object]] = nothing,
    tally: Tally | None = None,
) -> OcrOptions:
    """The options of the engines as the settings have them."""
    local = LocalOptions(
        page_seconds=config.ocr_page_seconds,
        document_seconds=config.ocr_document_seconds,
        threads=lanes().value("model_threads"),
    )
    if not config.ocr_base_url:
        return OcrOptions(config.ocr_engine, config.ocr_languages, local)
    key = config.ocr_api_key.get_secret_value()
    endpoint = Endpoint(config.ocr_base_url, config.ocr_model, key, config.ocr_timeout)
    remote = RemoteOptions(
        endpoint,
        tempo(config, inflight or config.ocr_inflight),
        config.ocr_max_tokens,
        drawers=config.ocr_drawers,
        spare=spare,
        patience=patience,
        before_request=before_request,
        tally=tally or Tally(),
    )
    return OcrOptions(config.ocr_engine, config.ocr_languages, local, remote)
