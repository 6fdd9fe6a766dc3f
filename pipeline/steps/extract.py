"""Text of a PDF, page by page, from a sandboxed pypdf; cleaned so that any database takes it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipeline.steps.pdf_sandbox import Ending, Limits, Line, Reading, read_pages, told
from queuemgr.abort import AbortSignal
from queuemgr.errors import StepFailed

CHILD = Path(__file__).with_name("pdf_text_child.py")

ENOUGH_LETTERS = 50
"""A page with fewer letters than this has no usable text layer: a number and a running head."""

MAGIC_WITHIN = 1024
"""Bytes in which `%PDF-` must appear; readers accept it off byte 0, and such files exist."""

PROTOCOL_BYTES = 1 << 20
"""Room for what surrounds the text in the child's lines."""


@dataclass(frozen=True)
class ExtractOptions:
    """Limits per document. Of 91 real papers none took above 5.4 s, 64 pages or 400 MB.

    Seconds are wall time; `memory_bytes` is the child's address space; `max_pages` and
    `max_chars` bound what is read, the rest is named in `Extracted.problem`.
    """

    page_seconds: float = 20.0
    document_seconds: float = 120.0
    memory_bytes: int = 1 << 30
    max_pages: int = 3000
    max_chars: int = 5_000_000


@dataclass(frozen=True)
class PageText:
    """One page, numbered from 1. `source` names what read it: `pypdf` or `ocr`; or it is `blank`,
    or `failed`, for the `reason` given."""

    number: int
    text: str
    source: str
    reason: str = ""


@dataclass(frozen=True)
class Extracted:
    """What was read. `problem` is "" or says which part is missing and why.

    `without_text` are the pages with fewer than 50 letters: blank, scanned or unreadable.
    `cleaned` counts characters that were removed or replaced.
    """

    pages: tuple[PageText, ...]
    page_count: int
    problem: str = ""
    without_text: tuple[int, ...] = ()
    cleaned: int = 0

    @property
    def full_text(self) -> str:
        """All pages, a line `[PAGE n]` before each."""
        return with_page_marks(self.pages)


def with_page_marks(pages: Iterable[PageText]) -> str:
    """The pages as one text, a line `[PAGE n]` before each."""
    return "\n".join(f"[PAGE {page.number}]\n{page.text}" for page in pages)


def extract(pdf: Path, options: ExtractOptions, signal: AbortSignal) -> Extracted:
    """Read `pdf`. Raises `StepFailed` (`not_pdf`, `encrypted`, `damaged`, `resource_limit`,
    `crashed`, `storage`) when no page could be read, and `Aborted` when the signal is set.
    """
    refuse_other_files(pdf)
    order = {
        "pdf": str(pdf.resolve()),
        "max_chars": options.max_chars,
        "max_pages": options.max_pages,
    }
    limits = Limits(
        options.page_seconds,
        options.document_seconds,
        options.memory_bytes,
        # six bytes for a character JSON has to escape
        output_bytes=6 * options.max_chars + PROTOCOL_BYTES,
    )
    reading = read_pages(CHILD, order, limits, signal, max_pages=options.max_pages)
    refuse_unread(reading, options)
    return extracted(reading, options)


def refuse_other_files(pdf: Path) -> None:
    """Look for `%PDF-` ourselves: a web page named .pdf deserves a better answer than damaged."""
    try:
        with pdf.open("rb") as file:
            head = file.read(MAGIC_WITHIN)
    except OSError as error:
        raise StepFailed("storage", f"The PDF could not be opened: {error.strerror}.") from error
    if b"%PDF-" not in head:
        raise StepFailed("not_pdf", f"This is not a PDF but {kind_of(head)}. Check its address.")


def kind_of(head: bytes) -> str:
    start = head.lstrip().lower()
    if not start:
        return "an empty file"
    return "a web page" if start.startswith((b"<!doctype html", b"<html")) else "another file"


REFUSALS = {
    "encrypted": (
        "encrypted",
        "The PDF asks for a password. Remove it (for example with `qpdf --decrypt`) and submit "
        "the file again.",
    ),
    "needs_crypto": (
        "encrypted",
        "The PDF is encrypted with AES, which needs another package: `pip install 'pypdf[crypto]'`",
    ),
}

DAMAGED = (
    "The PDF is damaged and could not be opened{detail}. Fetch it again, or repair it (for "
    "example with `qpdf in.pdf out.pdf`)."
)


def refuse_unread(reading: Reading, options: ExtractOptions) -> None:
    """Raise `StepFailed` when not one page was read."""
    if reading.refused is not None:
        detail = f" ({reading.refused.get('detail')})"
        kind, sentence = REFUSALS.get(
            str(reading.refused["refused"]), ("damaged", DAMAGED.format(detail=detail))
        )
        raise StepFailed(kind, sentence)
    if reading.lines or not (reading.failed or reading.stopped.reason):
        return
    ending = next(iter(reading.failed.values()), reading.stopped)
    raise StepFailed(*no_page_read(ending, options))


def no_page_read(ending: Ending, options: ExtractOptions) -> tuple[str, str]:
    """Kind and sentence for a document of which nothing came out."""
    if ending.reason == "crashed":
        return "crashed", f"The PDF could not be read: {told(ending)}. The file is likely at fault."
    allowed = (
        f"{options.page_seconds:g} s a page, {options.document_seconds:g} s in all, "
        f"{options.memory_bytes / (1 << 20):.0f} MiB"
    )
    return "resource_limit", (
        f"No page of the PDF could be read: {told(ending)} (limits: {allowed}). It may be built "
        "to exhaust readers; if you trust it, raise the limits."
    )


def extracted(reading: Reading, options: ExtractOptions) -> Extracted:
    """Clean every page read, and say what is missing."""
    count = reading.count or 0
    pages, cleaned, room = [], 0, options.max_chars
    for number in range(1, min(count, options.max_pages) + 1):
        text, changed = clean(usable_text(reading.lines.get(number)))
        pages.append(PageText(number, text[:room], "pypdf"))
        room -= len(pages[-1].text)
        cleaned += changed
    bare = tuple(page.number for page in pages if letters(page.text) < ENOUGH_LETTERS)
    return Extracted(tuple(pages), count, problem(reading, options), bare, cleaned)


def usable_text(line: Line | None) -> str:
    """Nothing at all for a page of mojibake: wrong letters are worse than a page sent to OCR."""
    return "" if line is None or line.get("unmapped") else str(line.get("text", ""))


def problem(reading: Reading, options: ExtractOptions) -> str:
    """One sentence for each way in which the result is partial; "" when it is whole."""
    count, lines = reading.count or 0, reading.lines
    read_to = min(count, options.max_pages)
    unread = [n for n in range(1, read_to + 1) if n not in lines and n not in reading.failed]
    found = [f"Page {n} was not read: {told(end)}." for n, end in sorted(reading.failed.items())]
    found += [
        f"{named(numbers)} gave no text: {reason}."
        for numbers, reason in (
            ([n for n, line in lines.items() if line.get("error")], "pypdf cannot read it"),
            (
                [n for n, line in lines.items() if line.get("unmapped")],
                "its fonts do not say which letters they draw",
            ),
        )
        if numbers
    ]
    if unread:
        found.append(f"{named(unread)} was not read: {told(reading.stopped) or 'no answer came'}.")
    if any(line.get("cut") for line in lines.values()):
        found.append(f"The text was cut at {options.max_chars:,} characters.")
    if count > read_to:
        found.append(f"Only the first {read_to:,} of {count:,} pages were read.")
    return " ".join(found)


def named(numbers: list[int]) -> str:
    """`Page 3`, or `Pages 3, 7, 9` with at most ten of them spelled out."""
    if len(numbers) == 1:
        return f"Page {numbers[0]}"
    more = f" and {len(numbers) - 10} more" if len(numbers) > 10 else ""
    return "Pages " + ", ".join(map(str, sorted(numbers)[:10])) + more


def letters(text: str) -> int:
    return sum(map(str.isalpha, text))


# pypdf leaves these in 57 of 91 papers; a full NFKC would also turn a squared sign into a 2.
LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl"}
LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
SURROGATES = re.compile("[\ud800-\udfff]")
UNWANTED = re.compile("[\x00-\x08\x0e-\x1f\x7f\x80-\x84\x86-\x9f\u00ad\ufdd0-\ufdef\ufffe\uffff]")
FORGED_MARK = re.compile(r"\[(\s*PAGE\s+\d+\s*)\]", re.IGNORECASE)


def clean(text: str) -> tuple[str, int]:
    """Text that PostgreSQL, UTF-8 and our own page marks all bear, and how many characters changed.

    Control characters (NUL comes from 1 in 18 real papers) and soft hyphens go, surrogate pairs
    become the letter they stand for, lone ones U+FFFD, and a `[PAGE 7]` of the document's own
    becomes `(PAGE 7)`.
    """
    text, lone = without_surrogates(text)
    text, removed = UNWANTED.subn("", LINE_ENDS.sub("\n", text))
    text, forged = FORGED_MARK.subn(r"(\1)", text.translate(LIGATURES))
    return text, lone + removed + forged


def without_surrogates(text: str) -> tuple[str, int]:
    if not SURROGATES.search(text):
        return text, 0
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return paired, len(SURROGATES.findall(text))
