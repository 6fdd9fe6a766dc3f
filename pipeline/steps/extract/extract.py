"""Text of a PDF, page by page: by a sandboxed PDFium, or by pypdf where PDFium does not do."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from mmap import ACCESS_READ, mmap
from pathlib import Path

from pipeline.steps.extract.clean_text import clean
from pipeline.steps.extract.doubtful_layers import SCANNED_SHARE, Doubt, doubt_of_scan, own_letters
from pipeline.steps.extract.engine_choice import (
    EngineText,
    choose_text,
    engine_text,
    exceeded_limits,
    is_doubtful,
)
from pipeline.steps.extract.legibility import ENOUGH_LETTERS, letters
from pipeline.steps.extract.page_text import PageText, with_page_marks
from pipeline.steps.pdf.errors import TOO_EXPENSIVE, refuse_other_files, refuse_unread
from pipeline.steps.pdf.sandbox import ReadResult, ResourceLimits, output_limit, read_pages
from queuemgr import AbortSignal, StepFailed

__all__ = ["ExtractOptions", "Extracted", "PageText", "clean", "extract", "letters", "with_page_marks"]

PYPDF = Path(__file__).parent.parent / "pdf" / "pypdf_child.py"
PDFIUM = Path(__file__).parent.parent / "pdf" / "pdfium_child.py"
PDFIUM_AND_XMP = PDFIUM.with_name("pdfium_xmp_child.py")


FIRST_SHARE = 0.5
"""Share of a document's time that PDFium may use. It needs a tenth of pypdf's, which has the rest."""

MOST = 0.5
"""With more than this share of pages too expensive to read, a document without text is left as it is: drawing
its pages costs more than reading them."""


@dataclass(frozen=True)
class ExtractOptions:
    """Limits per document. Of 91 real papers none took more than 5.4 s or 400 MB.

    Seconds are wall time, `document_seconds` for both engines together; `memory_bytes` is a child's
    address space; `max_pages`, `max_chars` and `max_page_chars` bound what is read, and
    `Extracted.problem` states what was left out.
    """

    page_seconds: float = 20.0
    document_seconds: float = 120.0
    memory_bytes: int = 1 << 30
    max_pages: int = 3000
    max_chars: int = 5_000_000
    max_page_chars: int = 200_000


@dataclass(frozen=True)
class Extracted:
    """The `pages` read, of `page_count`.

    `document_problem`: what is missing that no later step can add, or "". `without_text`: the pages
    with fewer than 50 letters (blank, scanned or unreadable), or whose text layer is in doubt. `info`: the
    document's own metadata.
    """

    pages: tuple[PageText, ...]
    page_count: int
    document_problem: str = ""
    without_text: tuple[int, ...] = ()
    info: Mapping[str, str] = field(default_factory=dict)

    @property
    def doubted(self) -> Extracted:
        """The same, with OCR asked for every page."""
        pages = tuple(replace(page, doubt=Doubt.FORCED) for page in self.pages)
        return replace(self, pages=pages, without_text=tuple(page.number for page in pages))

    @property
    def problem(self) -> str:
        """Empty if all was read, else a sentence for each way in which the result is incomplete."""
        return " ".join(filter(None, (*failures(self.pages), self.document_problem)))

    @property
    def cleaned(self) -> int:
        """Characters removed or replaced by `clean`."""
        return sum(page.cleaned for page in self.pages)


def extract(pdf: Path, options: ExtractOptions, signal: AbortSignal) -> Extracted:
    """Read `pdf`. Raises `StepFailed` (`not_pdf`, `encrypted`, `damaged`, `no_pages`,
    `resource_limit`, `crashed`, `storage`) if no page could be read, and `Aborted`."""
    refuse_other_files(pdf)
    deadline = time.monotonic() + options.document_seconds
    reader = PDFIUM_AND_XMP if may_have_xmp(pdf) else PDFIUM
    first = reading_by(reader, pdf, options, FIRST_SHARE * options.document_seconds, signal)
    first_texts = {n: engine_text(first, n) for n in pages_of(first, options)}
    readings = {"PDFium": first}
    if must_be_read_again(first, first_texts):
        again = [n for n, page in first_texts.items() if is_doubtful(page)] or None
        left = max(1.0, deadline - time.monotonic())
        readings["pypdf"] = reading_by(PYPDF, pdf, options, left, signal, again)
    refuse_unread(readings, in_words(options))
    read = extracted(readings, first_texts, options)
    refuse_expensive(readings, read.pages, in_words(options))
    return read


def may_have_xmp(pdf: Path) -> bool:
    """Whether a stream of the file is named XML, as its XMP is. The dictionary of a stream is in the file as
    it is written, even of one that is packed or encrypted."""
    with pdf.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return content.find(b"/XML") >= 0


def refuse_expensive(readings: Mapping[str, ReadResult], pages: Sequence[PageText], allowed: str) -> None:
    """Raise `StepFailed` (`resource_limit`) if most pages exceeded a limit, and the others have no text."""
    expensive = [p for p in pages if all(exceeded_limits(r, p.number) for r in readings.values())]
    if len(expensive) > MOST * len(pages) and not any(letters(page.text) for page in pages):
        raise StepFailed("resource_limit", TOO_EXPENSIVE.format(details=expensive[0].reason, allowed=allowed))


def reading_by(
    child: Path,
    pdf: Path,
    options: ExtractOptions,
    seconds: float,
    signal: AbortSignal,
    pages: Sequence[int] | None = None,
) -> ReadResult:
    """Read `pages` (None: all) with one engine within `seconds` of wall time."""
    job = {
        "pdf": str(pdf.resolve()),
        "max_chars": options.max_chars,
        "max_page_chars": options.max_page_chars,
        "max_pages": options.max_pages,
    }
    limits = ResourceLimits(
        options.page_seconds, seconds, options.memory_bytes, output_limit(options.max_chars)
    )
    return read_pages(child, job, limits, signal, pages=pages, max_pages=options.max_pages)


def pages_of(reading: ReadResult, options: ExtractOptions) -> range:
    """The numbers of the pages to read, none if they could not be counted."""
    return range(1, min(reading.count or 0, options.max_pages) + 1)


def must_be_read_again(first: ReadResult, pages: dict[int, EngineText]) -> bool:
    """Whether pypdf may do better; it has no password either."""
    if first.refused is not None and first.refused["refused"] == "encrypted":
        return False
    return not pages or any(map(is_doubtful, pages.values()))


def in_words(options: ExtractOptions) -> str:
    return (
        f"{options.page_seconds:g} s a page, {options.document_seconds:g} s in all, "
        f"{options.memory_bytes / (1 << 20):.0f} MiB"
    )


def extracted(
    readings: dict[str, ReadResult], first_texts: dict[int, EngineText], options: ExtractOptions
) -> Extracted:
    """Choose a text for every page, and state what is missing."""
    first, second = readings["PDFium"], readings.get("pypdf")
    counted = first if first.count or second is None else second
    choices = [
        choose_text(
            n, first_texts.get(n) or engine_text(first, n), second_text(second, first_texts.get(n), n)
        )
        for n in pages_of(counted, options)
    ]
    chosen = with_doubts([choice.page for choice in choices], first)
    pages = within(options.max_chars, chosen)
    cut = any(choice.cut for choice in choices) or pages != chosen
    bare = tuple(page.number for page in pages if page.doubt or letters(page.text) < ENOUGH_LETTERS)
    missing = filter(None, (cut_short(options) * cut, *uncounted(readings, counted, options)))
    info = first.info or (second.info if second else {})
    return Extracted(tuple(pages), counted.count or 0, " ".join(missing), bare, info)


def with_doubts(pages: Sequence[PageText], by_pdfium: ReadResult) -> list[PageText]:
    """The pages, those that are scans under a text layer marked."""
    covered = {n: float(line.get("covered") or 0.0) for n, line in by_pdfium.lines.items()}
    if max(covered.values(), default=0.0) < SCANNED_SHARE:
        return list(pages)
    own = own_letters({page.number: page.text for page in pages})
    return [
        replace(page, doubt=page.doubt or doubt_of_scan(own[page.number], page.text, covered[page.number]))
        if page.number in covered and letters(page.text) >= ENOUGH_LETTERS
        else page
        for page in pages
    ]


def second_text(second: ReadResult | None, first: EngineText | None, number: int) -> EngineText | None:
    if second is None or not (first is None or is_doubtful(first)):
        return None
    return engine_text(second, number)


def within(room: int, pages: Iterable[PageText]) -> list[PageText]:
    """The pages, cut so that their text has at most `room` characters in total."""
    shortened = []
    for page in pages:
        shortened.append(page if len(page.text) <= room else replace(page, text=page.text[:room]))
        room -= len(shortened[-1].text)
    return shortened


def cut_short(options: ExtractOptions) -> str:
    return (
        f"The text was cut: {options.max_chars:,} characters may be read, "
        f"{options.max_page_chars:,} of a page."
    )


def uncounted(readings: dict[str, ReadResult], counted: ReadResult, options: ExtractOptions) -> Iterator[str]:
    """Sentences about pages that were not read."""
    count = counted.count or 0
    if count > options.max_pages:
        yield f"Only the first {options.max_pages:,} of {count:,} pages were read."
    counts = {name: reading.count for name, reading in readings.items() if reading.count}
    if len(set(counts.values())) > 1:
        yield "The number of pages is uncertain: " + ", ".join(
            f"{count:,} by {name}" for name, count in counts.items()
        ) + "."  # fmt: skip


def failures(pages: Iterable[PageText]) -> Iterator[str]:
    """A sentence for each reason why pages could not be read."""
    failed: dict[str, list[int]] = {}
    for page in pages:
        if page.source == "failed":
            failed.setdefault(page.reason, []).append(page.number)
    for reason, numbers in failed.items():
        yield f"{named(numbers)} could not be read ({reason})."


def named(numbers: list[int]) -> str:
    """`Page 3`, or `Pages 3, 7, 9` with at most ten of them spelled out."""
    if len(numbers) == 1:
        return f"Page {numbers[0]}"
    more = f" and {len(numbers) - 10} more" if len(numbers) > 10 else ""
    return "Pages " + ", ".join(map(str, sorted(numbers)[:10])) + more
