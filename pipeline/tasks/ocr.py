"""The step that reads the pages without a text layer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from operator import attrgetter
from typing import Any

from celery import shared_task
from django.db import transaction

from pipeline import files
from pipeline.config import pipeline_settings
from pipeline.models import Document
from pipeline.ocr_config import KEY, is_remote, ocr_options, pages_at_once, requests_reserved
from pipeline.steps.extract.extract import PageText
from pipeline.steps.llm.client import Tally
from pipeline.steps.ocr.ocr import (
    FOR_GOOD,
    PATIENCE,
    OcrOptions,
    OcrResult,
    engine_for,
    ocr,
    page_of,
    raise_for_outage,
)
from pipeline.steps.pdf.page_outcomes import PageOutcome, PdfError
from pipeline.tasks.documents import load
from pipeline.tasks.ocr_checkpoint import Part
from pipeline.tasks.pages import has_text, pages_done, read_pages
from pipeline.tasks.request_accounting import UNBOOKED, NotBooked, book, counted, failed, used
from queuemgr import AbortSignal, Done, LeasedTask, Result, StepFailed, Work
from queuemgr.steptools.lane_slots import lane_slot
from queuemgr.steptools.lanes import LaneName

LANES: Mapping[str, LaneName] = {"rapidocr": "embedding", "tesseract": "proc"}
"""The lanes of the engines that run on this machine."""


@shared_task(base=LeasedTask, name="papers.ocr")
def ocr_step(work: Work) -> Result:
    """Read the pages without text by OCR. What it cannot read is named, and fails no other page."""
    with Booking(work) as booking:
        try:
            return _ocr(work, booking)
        except NotBooked:
            return UNBOOKED
        except Exception as error:
            return failed(error, work, booking.paid)


def _ocr(work: Work, booking: Booking) -> Done:
    document, wanted = load(work), list(work.inputs["pages_without_text"])
    options = _options(len(wanted), booking)
    part = Part(document, _reader(options))
    with part.saved_on_failure(), counted(document, booking.tally):
        outcomes = _read(work, document, wanted, options, part)
        done = _stored(work, document, outcomes, used(booking.tally))
    return Done(done.context, _and_forget(done, part), booking.paid)


class Booking:
    """Says each request before it is sent, in one thread of its own: the engine's event loop must
    not wait for the database, and Django's connections belong to threads. `tally` counts what was
    really sent, and the tokens it took."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="booking")
        self._booked = 0
        self.tally = Tally()

    def __enter__(self) -> Booking:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()

    @property
    def paid(self) -> int | None:
        """Requests booked; None where there is no endpoint to send them to."""
        return self._booked if is_remote(pipeline_settings()) else None

    async def one(self) -> None:
        """Book one request. Raises as `booking.book` does."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._spend)

    def _spend(self) -> None:
        book(self._work)
        self._booked += 1


def _read(
    work: Work, document: Document, wanted: Sequence[int], options: OcrOptions, part: Part
) -> list[PageOutcome]:
    """The outcome of every page wanted; those an attempt before this one read are not read again."""
    left = [page for page in wanted if page not in part.outcomes]
    try:
        with _place(options, work.signal), files.on_disk(document.pdf) as pdf:
            read = ocr(pdf, left, options, work.signal, part.add) if left else OcrResult(())
        raise_for_outage(read, KEY)
    except StepFailed as error:
        if error.kind not in FOR_GOOD or not has_text(read_pages(document)):
            raise
        # The text there is is worth more than a failure over pages no attempt will ever read.
        failed = PdfError(error.message, kind=error.kind)
        left = [page for page in left if page not in part.outcomes]
        read = OcrResult(tuple(PageOutcome(page, 0, error=failed) for page in left))
    return [*read.outcomes, *(each for page, each in part.outcomes.items() if page in wanted)]


def _place(options: OcrOptions, signal: AbortSignal) -> AbstractContextManager[None]:
    """The place an engine of this machine takes in its lane; a model elsewhere takes none."""
    lane = LANES.get(engine_for(options).engine)
    return lane_slot(lane, signal) if lane else nullcontext()


def _options(pages: int, booking: Booking) -> OcrOptions:
    config = pipeline_settings()
    return ocr_options(
        config,
        inflight=pages_at_once(config, pages),
        spare=requests_reserved(config, pages) - pages,
        patience=PATIENCE,
        before_request=booking.one,
        tally=booking.tally,
    )


def _reader(options: OcrOptions) -> str:
    """Who reads, by name: what one model read is not mixed with what another did."""
    try:
        engine = engine_for(options)
    except StepFailed:
        return "nobody"  # reading says why
    model = options.remote.endpoint.model if options.remote else ""
    return f"{engine.engine} {engine.languages or model}"


def _stored(
    work: Work, document: Document, outcomes: Sequence[PageOutcome], columns: dict[str, Any]
) -> Done:
    """All pages of the document, those read here in the place of the empty ones."""
    pages = {page.number: page for page in read_pages(document)}
    for outcome in outcomes:
        before = pages.get(outcome.page, PageText(outcome.page, "", "blank"))
        pages[outcome.page] = page_of(outcome, before)
    problem = " ".join(filter(None, (document.problem, _problem(outcomes))))
    in_order = sorted(pages.values(), key=attrgetter("number"))
    return pages_done(work, document, in_order, {}, {"problem": problem, **columns})


def _problem(outcomes: Sequence[PageOutcome]) -> str:
    """Which pages could not be read, and the reason of the first."""
    failed = {each.page: each.error for each in outcomes if each.error}
    if not failed:
        return ""
    first = min(failed)
    named = ", ".join(map(str, sorted(failed)))
    return f"OCR could not read page(s) {named}: {failed[first].message}"


def _and_forget(done: Done, part: Part) -> Callable[[], None]:
    def store() -> None:
        if done.store is not None:
            done.store()
        transaction.on_commit(partial(files.remove, part.name), robust=True)

    return store
