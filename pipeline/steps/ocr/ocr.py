"""OCR of pages without a text layer: by a vision model, Tesseract or RapidOCR, with one contract.

Every requested page gets exactly one outcome, in order: its text, blank, or an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

from pipeline.steps.extract.doubtful_layers import WORDS, is_better
from pipeline.steps.extract.extract import PageText, clean, letters
from pipeline.steps.ocr import rapidocr, tesseract
from pipeline.steps.ocr.engine import AvailableEngines, EngineChoice, EngineSetting, choose_engine
from pipeline.steps.ocr.page_map import PageCallback, ignore_page
from pipeline.steps.ocr.rapidocr import LocalOptions
from pipeline.steps.ocr.vision import RemoteOptions, read_by_model
from pipeline.steps.pdf.errors import refuse_other_files
from pipeline.steps.pdf.page_images import PageImages
from pipeline.steps.pdf.page_outcomes import PageFailed, PageOutcome
from pipeline.steps.pdf.renderer import RenderOptions
from queuemgr import AbortSignal, StepFailed

ENDPOINT_KINDS = frozenset(
    {"network", "timeout", "rate_limited", "server_error", "quota", "http_error", "bad_request"}
)
"""Kinds of failure that are about the endpoint, not the page."""

OUTAGE_SHARE = 0.5
"""With more than this share of such failures the whole step fails. The pages read are kept, and the
retry policy of the kind applies."""

TEMPORARY_REFUSALS = frozenset({"rate_limited", "quota"})
"""Refusals that end with time or a payment. One of them fails the whole step, since otherwise its
page would be lost for good."""

PERMANENT_KINDS = frozenset({"encrypted", "damaged", "resource_limit", "no_pages", "no_engine"})
"""Kinds of failure that would occur again with the same file on the same machines."""

MAX_WAIT_SECONDS = 60.0
"""Seconds a step itself waits if a server asks it to; for a longer wait it returns to the queue, so
that other work can use the slot."""


@dataclass(frozen=True)
class OcrOptions:
    """The engine, and the options of each; without `remote` there is no endpoint."""

    engine: EngineSetting = "auto"
    languages: str = ""
    local: LocalOptions = field(default_factory=LocalOptions)
    remote: RemoteOptions | None = None


@dataclass(frozen=True)
class OcrResult:
    """The outcome of every page, in the requested order, and the engine."""

    outcomes: tuple[PageOutcome, ...]
    engine: str = ""

    @property
    def pages(self) -> tuple[PageText, ...]:
        return tuple(
            PageText(each.page, each.text, "ocr") for each in self.outcomes if not (each.blank or each.error)
        )

    @property
    def blank(self) -> tuple[int, ...]:
        return tuple(each.page for each in self.outcomes if each.blank)

    @property
    def failed(self) -> dict[int, PageFailed]:
        return {each.page: each.error for each in self.outcomes if each.error}


def page_of(outcome: PageOutcome, before: PageText) -> PageText:
    """The page with this outcome, or its text layer where that is in doubt and yet the better one."""
    why = WORDS.get(before.doubt, "")
    if outcome.error is not None and not before.doubt:
        return replace(before, source="failed", reason=outcome.error.message)
    if outcome.error is not None:
        return replace(before, reason=f"{why}; OCR: {outcome.error.message}")
    if outcome.blank and letters(before.text):
        return before
    if before.doubt and not is_better(outcome.text, before.text, before.doubt):
        return replace(before, reason=f"{why}; OCR read no more")
    return PageText(outcome.page, outcome.text, "blank" if outcome.blank else "ocr", why, doubt=before.doubt)


def engine_for(options: OcrOptions) -> EngineChoice:
    """The engine for these options on this machine. Raises `StepFailed` (`no_engine`,
    `bad_request`)."""
    available = AvailableEngines(
        options.remote is not None, rapidocr.missing(), tesseract.languages_installed()
    )
    return choose_engine(options.engine, options.languages, available)


async def page_outcomes(
    pdf: Path,
    pages: Sequence[int],
    options: OcrOptions,
    signal: AbortSignal,
    on_page: PageCallback = ignore_page,
) -> AsyncGenerator[PageOutcome, None]:
    """An outcome for each of `pages` (numbered from 1), in that order.

    `on_page` is called with each page as soon as it is read or found blank, in any order.

    Raises `StepFailed` if the document cannot be opened or no engine is usable, and `Aborted`. A
    caller that stops early must close the generator, which stops everything it started.
    """
    signal.raise_if_aborted()
    engine = engine_for(options)
    outcomes = read_by_engine(engine, pdf, pages, options, signal, on_page)
    async with aclosing(outcomes):
        async for outcome in outcomes:
            yield outcome


def read_by_engine(
    engine: EngineChoice,
    pdf: Path,
    pages: Sequence[int],
    options: OcrOptions,
    signal: AbortSignal,
    on_page: PageCallback,
) -> AsyncGenerator[PageOutcome, None]:
    if engine.engine == "remote" and options.remote is not None:
        return read_by_model(pdf, pages, options.remote, signal, on_page)
    if engine.engine == "tesseract":
        return tesseract.read_by_tesseract(pdf, pages, engine.languages, options.local, signal, on_page)
    return in_thread(
        lambda inner: rapidocr.read_by_rapidocr(pdf, pages, options.local, inner), signal, on_page
    )


def cleaned(outcomes: Iterator[PageOutcome]) -> PageOutcome | None:
    """The next one, if there is one."""
    outcome = next(outcomes, None)
    return outcome and replace(outcome, text=clean(outcome.text).text)


async def in_thread(
    read: Callable[[AbortSignal], Generator[PageOutcome, None, None]],
    signal: AbortSignal,
    on_page: PageCallback,
) -> AsyncGenerator[PageOutcome, None]:
    """Run a generator that waits for a child process in a thread, and clean its texts there; leaving kills
    the child."""
    inner, loop = AbortSignal(), asyncio.get_running_loop()
    outcomes = read(inner)
    with ThreadPoolExecutor(1) as thread, signal.hooked(lambda: inner.abort(signal.reason)):
        try:
            while True:
                outcome = await loop.run_in_executor(thread, cleaned, outcomes)
                if outcome is None:
                    break
                if outcome.error is None:
                    on_page(outcome)
                yield outcome
        finally:
            inner.abort("the caller has stopped reading")
            thread.submit(outcomes.close)


async def count_pages(pdf: Path, signal: AbortSignal) -> int:
    """The number of pages. Raises `StepFailed` if the document cannot be opened."""
    if find_spec("pypdfium2") is None:
        raise StepFailed("bad_request", "pypdfium2 is missing: run `make install`.")
    await asyncio.to_thread(refuse_other_files, pdf)
    async with PageImages(pdf, (), 1, RenderOptions(), signal) as images:
        return images.count


def ocr(
    pdf: Path,
    pages: Sequence[int],
    options: OcrOptions,
    signal: AbortSignal,
    on_page: PageCallback = ignore_page,
) -> OcrResult:
    """Read `pages` of `pdf`; `on_page` is called as in `page_outcomes`.

    Raises `StepFailed` (`encrypted`, `damaged`, `resource_limit`, `crashed`, `no_engine`,
    `bad_request`), `Aborted`, and what `on_page` raises. Not for use inside a running event loop.
    """
    engine = engine_for(options).engine

    async def collected() -> list[PageOutcome]:
        async with aclosing(page_outcomes(pdf, pages, options, signal, on_page)) as outcomes:
            return [outcome async for outcome in outcomes]

    return OcrResult(tuple(asyncio.run(collected())), engine)


def raise_for_outage(result: OcrResult, limit: str = "") -> None:
    """Raise `StepFailed` if most pages failed because of the endpoint, or any by a temporary refusal.

    Its kind is that of the last such failure, its wait the longest one requested.
    """
    failed = [error for error in result.failed.values() if error.kind in ENDPOINT_KINDS]
    temporary = [error for error in failed if is_temporary(error)]
    count = sum(1 for each in result.outcomes if not each.blank)
    if not temporary and len(failed) <= OUTAGE_SHARE * count:
        return
    last = (temporary or failed)[-1]
    waits = [error.retry_after for error in failed if error.retry_after is not None]
    raise StepFailed(
        last.kind,
        f"{len(failed)} of {count} pages could not be read by OCR: {last.message}",
        retry_after=max(waits, default=None),
        http_status=last.http_status,
        limit=limit,
    )


def is_temporary(error: PageFailed) -> bool:
    """Whether the endpoint says that the page can be read later."""
    return error.kind in TEMPORARY_REFUSALS or (error.retry_after or 0.0) > MAX_WAIT_SECONDS
