"""The step that reads the pages without a text layer."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from typing import Any

from celery import shared_task

from pipeline import files
from pipeline.config import pipeline_settings
from pipeline.models import Document
from pipeline.ocr_config import OCR_LIMIT, is_remote, pages_at_once, requests_reserved
from pipeline.ocr_options import ocr_options
from pipeline.sandbox_required import refuse_without_sandbox
from pipeline.steps.extract.extract import PageText, named
from pipeline.steps.ocr.ocr import (
    MAX_WAIT_SECONDS,
    PERMANENT_KINDS,
    OcrOptions,
    OcrResult,
    engine_for,
    ocr,
    page_of,
    raise_for_outage,
)
from pipeline.steps.pdf.page_outcomes import PageOutcome, PdfError
from pipeline.tasks.checkpoint import JsonLinesCheckpoint
from pipeline.tasks.documents import load
from pipeline.tasks.pages import has_text, pages_done, read_pages
from pipeline.tasks.request_accounting import (
    CHARGE_FAILED,
    ChargeFailed,
    charge_request,
    failed_result,
    recorded_on_failure,
    usage_columns,
)
from pipeline.tasks.spending import Spending
from queuemgr import AbortSignal, Done, LeasedTask, Result, StepFailed, Work
from queuemgr.steptools.lanes import LaneName
from queuemgr.steptools.process_lanes import lane_slot

LANES: Mapping[str, LaneName] = {"rapidocr": "embedding", "tesseract": "proc"}
"""The lane of each local engine."""


@shared_task(base=LeasedTask, name="papers.ocr")
def ocr_step(work: Work) -> Result:
    """Read the pages without text by OCR. A page that cannot be read is named, and fails no other page."""
    with RequestCharger(work) as charger:
        try:
            return _ocr(work, charger)
        except ChargeFailed:
            return CHARGE_FAILED
        except Exception as error:  # whatever it is, its requests were paid for
            return failed_result(error, work, charger.cost)
        finally:
            charger.spending.settle()


def _ocr(work: Work, charger: RequestCharger) -> Done:
    refuse_without_sandbox()
    document, wanted = load(work), list(work.inputs["pages_without_text"])
    options = _options(len(wanted), charger)
    checkpoint = JsonLinesCheckpoint(_checkpoint_name(document, _reader(options)))
    with checkpoint.saved_on_failure(), recorded_on_failure(document, charger.spending):
        outcomes = _read(work, document, wanted, options, checkpoint)
        done = _stored(work, document, outcomes, usage_columns(charger.spending))
    return Done(done.context, checkpoint.deleted_after(done), charger.cost)


class RequestCharger:
    """Charges each request before it is sent, in a thread of its own: the engine's event loop must not
    wait for the database, and Django's connections belong to threads. Its `spending` counts what was really
    sent, and charges the tokens it took."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="charge")
        self._charged = 0
        config = pipeline_settings()
        self.spending = Spending(work, config.ocr_model if is_remote(config) else None, OCR_LIMIT)
        self.spending.usage.after_answer = self._charge_answer
        self.spending.usage.after_headers = self._tell

    def __enter__(self) -> RequestCharger:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()

    @property
    def cost(self) -> int | None:
        """Requests charged; None without an endpoint."""
        return self._charged if is_remote(pipeline_settings()) else None

    async def charge(self) -> None:
        """Charge one request. Raises as `charge_request` does."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._charge)

    async def _charge_answer(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self.spending.charge)

    async def _tell(self, headers: Mapping[str, str], sent: float) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self.spending.observe, headers, sent)

    def _charge(self) -> None:
        charge_request(self._work)
        self._charged += 1


def _checkpoint_name(document: Document, reader: str) -> str:
    """Of the pages that this reader has read of this file."""
    source = f"{document.sha256} {document.pdf.name} {reader}"
    digest = hashlib.sha256(source.encode()).hexdigest()
    return f"{files.OCR_CHECKPOINTS}/{document.file_stem}-{digest[:10]}.jsonl"


def _read_before(checkpoint: JsonLinesCheckpoint) -> dict[int, PageOutcome]:
    """The pages that earlier attempts read, by number."""
    fields = {"page", "attempts", "text", "blank"}
    records = (record for record in checkpoint.records() if record.keys() == fields)
    return {record["page"]: PageOutcome(**record) for record in records}


def _read(
    work: Work,
    document: Document,
    wanted: Sequence[int],
    options: OcrOptions,
    checkpoint: JsonLinesCheckpoint,
) -> list[PageOutcome]:
    """The outcome of every page wanted; those an earlier attempt read are not read again."""
    known = _read_before(checkpoint)

    def keep(outcome: PageOutcome) -> None:
        known[outcome.page] = outcome
        checkpoint.add({"page": outcome.page, "attempts": outcome.attempts, "text": outcome.text,
                        "blank": outcome.blank})  # fmt: skip

    left = [page for page in wanted if page not in known]
    try:
        with _lane_slot(options, work.signal), files.on_disk(document.pdf) as pdf:
            read = ocr(pdf, left, options, work.signal, keep) if left else OcrResult(())
        raise_for_outage(read, OCR_LIMIT)
    except StepFailed as error:
        if error.kind not in PERMANENT_KINDS or not has_text(read_pages(document)):
            raise
        # The text of the other pages is worth more than a failure over pages that cannot be read.
        failed = PdfError(error.message, kind=error.kind)
        left = [page for page in left if page not in known]
        read = OcrResult(tuple(PageOutcome(page, 0, error=failed) for page in left))
    kept = (outcome for page, outcome in known.items() if page in wanted)
    return list({outcome.page: outcome for outcome in (*kept, *read.outcomes)}.values())


def _lane_slot(options: OcrOptions, signal: AbortSignal) -> AbstractContextManager[None]:
    """A slot in the lane of a local engine; a remote model needs none."""
    lane = LANES.get(engine_for(options).engine)
    return lane_slot(lane, signal) if lane else nullcontext()


def _options(pages: int, charger: RequestCharger) -> OcrOptions:
    config = pipeline_settings()
    return ocr_options(
        config,
        inflight=pages_at_once(config, pages),
        spare=requests_reserved(config, pages) - pages,
        max_wait=MAX_WAIT_SECONDS,
        before_request=charger.charge,
        usage=charger.spending.usage,
    )


def _reader(options: OcrOptions) -> str:
    """The engine and its model or languages: their results are not mixed."""
    try:
        engine = engine_for(options)
    except StepFailed:
        return "none"  # reading raises the reason
    model = options.remote.endpoint.model if options.remote else ""
    return f"{engine.engine} {engine.languages or model}"


def _stored(work: Work, document: Document, outcomes: Sequence[PageOutcome], columns: dict[str, Any]) -> Done:
    """All pages of the document, with those read here instead of the empty ones."""
    pages = {page.number: page for page in read_pages(document)}
    for outcome in outcomes:
        before = pages.get(outcome.page, PageText(outcome.page, "", "blank"))
        pages[outcome.page] = page_of(outcome, before)
    problem = " ".join(filter(None, (document.problem, _problem(outcomes))))
    in_order = sorted(pages.values(), key=attrgetter("number"))
    if not has_text(in_order) and any(map(exceeded_limit, outcomes)):
        raise StepFailed("resource_limit", problem)
    return pages_done(work, document, in_order, {}, {"problem": problem, **columns})


def exceeded_limit(outcome: PageOutcome) -> bool:
    return outcome.error is not None and outcome.error.kind == "resource_limit"


def _problem(outcomes: Sequence[PageOutcome]) -> str:
    """Which pages could not be read, and why most of them."""
    failed = {each.page: each.error.message for each in outcomes if each.error}
    if not failed:
        return ""
    reason = Counter(failed.values()).most_common(1)[0][0]
    return f"{named(list(failed))} could not be read by OCR: {reason}"
