"""What the knobs mean for OCR: which engine, how hard the endpoint is asked, and what that costs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pipeline.config import PipelineKnobs
from pipeline.steps.llm.client import Tally
from pipeline.steps.llm.endpoint import Endpoint
from pipeline.steps.ocr.ocr import OcrOptions
from pipeline.steps.ocr.page_map import Tempo
from pipeline.steps.ocr.rapidocr import LocalOptions
from pipeline.steps.ocr.vision import RemoteOptions, nothing

KEY = "llm:ocr"
"""The limit that stands for the vision endpoint: its Retry-After, its budget, its pauses."""

REQUESTS = "ocr_requests"
"""The tokens that count pages at the endpoint at once, over all documents."""


def is_remote(knobs: PipelineKnobs) -> bool:
    """Whether pages go to the endpoint."""
    return bool(knobs.ocr_base_url) and knobs.ocr_engine in ("auto", "remote")


def pages_at_once(knobs: PipelineKnobs, pages: int) -> int:
    """Pages of one document at the endpoint at once, as few numbers as will do: each makes a route
    of its own in the queue."""
    most = min(knobs.ocr_inflight, knobs.max_ocr_requests or knobs.ocr_inflight)
    return min(most, rounded_up(pages))


def requests_reserved(knobs: PipelineKnobs, pages: int) -> int:
    """Requests a document's OCR may cost: one a page, and room for second tries.

    Nine tries in ten are the only one, so a quarter more, and never less than one page's worth.
    What is not used is given back; when the room is used up failing pages are not tried again, so
    the number is never passed.
    """
    spare = max(knobs.ocr_max_retries, -(-pages // 4))
    return rounded_up(pages + min(spare, pages * knobs.ocr_max_retries))


def rounded_up(number: int) -> int:
    """To two binary digits (1, 2, 3, 4, 6, 8, 12, 16, …): at most half as much again."""
    step = 1 << max(0, number.bit_length() - 2)
    return -(-number // step) * step


def tempo(knobs: PipelineKnobs, inflight: int) -> Tempo:
    return Tempo(
        inflight,
        knobs.ocr_window or 2 * inflight,
        knobs.ocr_max_retries,
        knobs.ocr_base_delay,
        knobs.ocr_max_delay,
    )


def ocr_options(
    knobs: PipelineKnobs,
    *,
    inflight: int | None = None,
    spare: int | None = None,
    patience: float = float("inf"),
    before_request: Callable[[], Awaitable[object]] = nothing,
    tally: Tally | None = None,
) -> OcrOptions:
    """The options of the engines as the knobs have them."""
    local = LocalOptions(
        page_seconds=knobs.ocr_page_seconds,
        document_seconds=knobs.ocr_document_seconds,
        threads=knobs.ocr_threads,
    )
    if not knobs.ocr_base_url:
        return OcrOptions(knobs.ocr_engine, knobs.ocr_languages, local)
    key = knobs.ocr_api_key.get_secret_value()
    endpoint = Endpoint(knobs.ocr_base_url, knobs.ocr_model, key, knobs.ocr_timeout)
    remote = RemoteOptions(
        endpoint,
        tempo(knobs, inflight or knobs.ocr_inflight),
        knobs.ocr_max_tokens,
        drawers=knobs.ocr_drawers,
        spare=spare,
        patience=patience,
        before_request=before_request,
        tally=tally or Tally(),
    )
    return OcrOptions(knobs.ocr_engine, knobs.ocr_languages, local, remote)
