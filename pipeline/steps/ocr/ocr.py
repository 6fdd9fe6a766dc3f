"""Text of pages that have none: by a model, by Tesseract or by RapidOCR, one contract for all.

Every page asked for gets exactly one outcome, in order: its text, a blank, or why it failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

from pipeline.steps.extract.extract import PageText, clean, letters
from pipeline.steps.ocr import rapidocr, tesseract
from pipeline.steps.ocr.engine import Chosen, Installed, Wanted, chosen
from pipeline.steps.ocr.page_map import Keep, nowhere
from pipeline.steps.ocr.rapidocr import LocalOptions
from pipeline.steps.ocr.vision import RemoteOptions, by_model
from pipeline.steps.pdf.page_images import PageImages
from pipeline.steps.pdf.page_outcomes import PageFailed, PageOutcome
from pipeline.steps.pdf.renderer import Drawing
from queuemgr import AbortSignal, StepFailed

OF_THE_ENDPOINT = frozenset(
    {"network", "timeout", "rate_limited", "server_error", "quota", "http_error", "bad_request"}
)
"""Kinds of failure that say something of the endpoint, and nothing of the page."""

OUTAGE_SHARE = 0.5
"""Above this share of such failures the whole step failed: what it read is kept, and the policy of
the kind says when it is tried again."""

PASSES = frozenset({"rate_limited", "quota"})
"""Kinds of refusal that end when time passes or the account is filled: one is enough for the whole
step to fail, since the pages they cost would else be given up for good."""

FOR_GOOD = frozenset({"encrypted", "damaged", "resource_limit", "no_pages", "no_engine"})
"""Kinds of failure that another attempt at the same file, on the same machines, would meet again."""

PATIENCE = 60.0
"""Seconds a step waits inside for what a server asks; a longer wait is left to the queue, which
gives the slot to other work meanwhile."""


@dataclass(frozen=True)
class OcrOptions:
    """Which engine, and the options of each; without `remote` there is no endpoint."""

    engine: Wanted = "auto"
    languages: str = ""
    local: LocalOptions = field(default_factory=LocalOptions)
    remote: RemoteOptions | None = None


@dataclass(frozen=True)
class OcrResult:
    """The outcome of every page, in the order they were asked for, and who read them."""

    outcomes: tuple[PageOutcome, ...]
    engine: str = ""

    @property
    def pages(self) -> tuple[PageText, ...]:
        return tuple(
            PageText(each.page, each.text, "ocr")
            for each in self.outcomes
            if not (each.blank or each.error)
        )

    @property
    def blank(self) -> tuple[int, ...]:
        return tuple(each.page for each in self.outcomes if each.blank)

    @property
    def failed(self) -> dict[int, PageFailed]:
        return {each.page: each.error for each in self.outcomes if each.error}


def page_of(outcome: PageOutcome, before: PageText) -> PageText:
    """What is known of a page now; the few letters of one too pale to look at are worth keeping."""
    if outcome.error is not None:
        return replace(before, source="failed", reason=outcome.error.message)
    if outcome.blank and letters(before.text):
        return before
    return PageText(outcome.page, outcome.text, "blank" if outcome.blank else "ocr")


def engine_for(options: OcrOptions) -> Chosen:
    """The engine these options come to on this machine. Raises `StepFailed` (`no_engine`,
    `bad_request`)."""
    there = Installed(
        options.remote is not None, rapidocr.missing(), tesseract.languages_installed()
    )
    return chosen(options.engine, options.languages, there)


async def page_outcomes(
    pdf: Path,
    pages: Sequence[int],
    options: OcrOptions,
    signal: AbortSignal,
    keep: Keep = nowhere,
) -> AsyncGenerator[PageOutcome, None]:
    """An outcome for each of `pages` (numbered from 1), in that order, each as soon as it is due.

    `keep` is told of each page read or blank as soon as it is, before those it waits for in order.

    Raises `StepFailed` when the document cannot be opened or no engine fits, and `Aborted`.
    Leaving early must close the generator; nothing is left running then.
    """
    signal.raise_if_aborted()
    engine = engine_for(options)
    outcomes = by_engine(engine, pdf, pages, options, signal, lambda each: keep(cleaned(each)))
    async with aclosing(outcomes):
        async for outcome in outcomes:
            yield cleaned(outcome)


def cleaned(outcome: PageOutcome) -> PageOutcome:
    return replace(outcome, text=clean(outcome.text)[0])


def by_engine(
    engine: Chosen,
    pdf: Path,
    pages: Sequence[int],
    options: OcrOptions,
    signal: AbortSignal,
    keep: Keep,
) -> AsyncGenerator[PageOutcome, None]:
    if engine.engine == "remote" and options.remote is not None:
        return by_model(pdf, pages, options.remote, signal, keep)
    if engine.engine == "tesseract":
        return tesseract.by_tesseract(pdf, pages, engine.languages, options.local, signal, keep)
    return beside(
        lambda inner: rapidocr.by_rapidocr(pdf, pages, options.local, inner), signal, keep
    )


async def beside(
    read: Callable[[AbortSignal], Generator[PageOutcome, None, None]],
    signal: AbortSignal,
    keep: Keep,
) -> AsyncGenerator[PageOutcome, None]:
    """A generator that waits for a child process, read in a thread; leaving kills the child."""
    inner, loop = AbortSignal(), asyncio.get_running_loop()
    outcomes = read(inner)
    with ThreadPoolExecutor(1) as thread, signal.hooked(lambda: inner.abort(signal.reason)):
        try:
            while True:
                outcome = await loop.run_in_executor(thread, next, outcomes, None)
                if outcome is None:
                    break
                if outcome.error is None:
                    keep(outcome)
                yield outcome
        finally:
            inner.abort("nobody waits for it any more")
            thread.submit(outcomes.close)


async def count_pages(pdf: Path, signal: AbortSignal) -> int:
    """How many pages there are. Raises `StepFailed` when the document cannot be opened."""
    if find_spec("pypdfium2") is None:
        raise StepFailed("bad_request", "pypdfium2 is missing: `pip install sluicegate[ocr]`.")
    async with PageImages(pdf, (), 1, Drawing(), signal) as images:
        return images.count


def ocr(
    pdf: Path,
    pages: Sequence[int],
    options: OcrOptions,
    signal: AbortSignal,
    keep: Keep = nowhere,
) -> OcrResult:
    """Recognise `pages` of `pdf`; `keep` is called with each outcome as `page_outcomes` says.

    Raises `StepFailed` (`encrypted`, `damaged`, `resource_limit`, `crashed`, or `bad_request` when
    there is no engine), `Aborted`, and what `keep` raises. Not for use inside a running event loop.
    """
    engine = engine_for(options).engine

    async def collected() -> list[PageOutcome]:
        async with aclosing(page_outcomes(pdf, pages, options, signal, keep)) as outcomes:
            return [outcome async for outcome in outcomes]

    return OcrResult(tuple(asyncio.run(collected())), engine)


def raise_for_outage(result: OcrResult, limit: str = "") -> None:
    """Raise `StepFailed` when most of what was asked failed for no fault of the pages, or any of it
    by a refusal that passes.

    Its kind is that of the last such failure, its wait the longest one asked for.
    """
    lost = [error for error in result.failed.values() if error.kind in OF_THE_ENDPOINT]
    passing = [error for error in lost if passes(error)]
    asked = sum(1 for each in result.outcomes if not each.blank)
    if not passing and len(lost) <= OUTAGE_SHARE * asked:
        return
    last = (passing or lost)[-1]
    waits = [error.retry_after for error in lost if error.retry_after is not None]
    raise StepFailed(
        last.kind,
        f"{len(lost)} of {asked} pages could not be read by OCR: {last.message}",
        retry_after=max(waits, default=None),
        http_status=last.http_status,
        limit=limit,
    )


def passes(error: PageFailed) -> bool:
    """Whether a page would be read later, by what the endpoint itself says."""
    return error.kind in PASSES or (error.retry_after or 0.0) > PATIENCE
