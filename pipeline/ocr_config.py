"""What the settings say of OCR, for the flow: whether pages are sent, how many at once, and at what cost."""

from __future__ import annotations

from pipeline.config import PipelineSettings
from queuemgr import Context

OCR_LIMIT = "llm:ocr"
"""The limit of the vision endpoint."""

OCR_REQUESTS = "ocr_requests"
"""The resource that limits concurrent pages at the endpoint, over all documents."""


def is_remote(config: PipelineSettings) -> bool:
    """Whether pages are sent to the endpoint."""
    return bool(config.ocr_base_url) and config.ocr_engine in ("auto", "remote")


def pages_for_ocr(context: Context) -> int:
    """Those that the text layer leaves; before it is looked at, all of a paper that is read again."""
    if "pages_without_text" in context:
        return len(context["pages_without_text"] or ())
    return int(context.get("pages_expected") or 0)


def pages_at_once(config: PipelineSettings, pages: int) -> int:
    """Concurrent pages of one document at the endpoint, rounded up: each distinct number makes a route
    in the queue."""
    most = min(config.ocr_inflight, config.max_ocr_requests or config.ocr_inflight)
    return min(most, rounded_up(pages))


def requests_reserved(config: PipelineSettings, pages: int) -> int:
    """Requests to reserve for a document's OCR: one a page, and some for retries.

    Nine pages in ten need one request, so a quarter more are reserved, and at least one page's retries.
    Unused ones are refunded; when all are used, failing pages are not retried, so that the number is
    never exceeded.
    """
    spare = max(config.ocr_max_retries, -(-pages // 4))
    return rounded_up(pages + min(spare, pages * config.ocr_max_retries))


def rounded_up(number: int) -> int:
    """Rounded up to two binary digits (1, 2, 3, 4, 6, 8, 12, 16, …): at most by half."""
    step = 1 << max(0, number.bit_length() - 2)
    return -(-number // step) * step
