"""Which engine's text of a page is used, and why: pypdf's, else PDFium's, else none. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pipeline.steps.extract.clean_text import clean
from pipeline.steps.extract.legibility import ENOUGH_LETTERS, letters, problem_with
from pipeline.steps.extract.page_text import PageText
from pipeline.steps.pdf.sandbox import ReadResult, describe

NAMELESS = "its fonts have no character map"

FONTS = {"nameless": NAMELESS, "collection": "its fonts need character tables that pypdf lacks"}

LITTLE_TEXT = "it found almost no text"


@dataclass(frozen=True)
class EngineText:
    """A page's text by one engine, cleaned. `problem`: why it is unusable, "" if it is usable; `cut`:
    there was more text."""

    text: str = ""
    problem: str = ""
    cleaned: int = 0
    cut: bool = False

    @property
    def has_little_text(self) -> bool:
        """Either the page has no more, or the other engine may find more."""
        return not self.problem and not self.cut and letters(self.text) < ENOUGH_LETTERS


def engine_text(reading: ReadResult, number: int) -> EngineText:
    """A page's text by one engine; unreadable text is left out, since wrong letters are worse than none."""
    line = reading.lines.get(number)
    if line is None:
        return EngineText(problem=unread_reason(reading, number))
    if line.get("error"):
        return EngineText(problem=f"it cannot read the page ({line['error']})")
    if line.get("fonts"):
        return EngineText(problem=FONTS[str(line["fonts"])])
    text, cleaned = clean(str(line.get("text", "")))
    if junk := line["problem"] if "problem" in line else problem_with(text):
        return EngineText(problem=str(junk))
    return EngineText(text, cleaned=cleaned, cut=bool(line.get("cut")))


def unread_reason(reading: ReadResult, number: int) -> str:
    if reading.refused is not None:
        return f"it cannot open the file ({reading.refused.get('detail')})"
    return describe(reading.failed.get(number, reading.stopped)) or "no result"


def is_doubtful(first: EngineText) -> bool:
    """Whether the second engine may do better. Letters that are nowhere in the file it would only
    guess, as pypdf does."""
    return first.has_little_text or bool(first.problem and first.problem != NAMELESS)


class ChosenText(NamedTuple):
    """The page, and whether its text was cut."""

    page: PageText
    cut: bool = False


def choose_text(number: int, first: EngineText, second: EngineText | None) -> ChosenText:
    if second is not None and is_better(second, first):
        reason = f"pypdf: {first.problem or LITTLE_TEXT}"
        return ChosenText(PageText(number, second.text, "pdfium", reason, second.cleaned), second.cut)
    if not first.problem:
        return ChosenText(PageText(number, first.text, "pypdf", cleaned=first.cleaned), first.cut)
    reason = f"pypdf: {first.problem}"
    if second is not None:
        reason += f"; PDFium: {second.problem}"
    return ChosenText(PageText(number, "", "failed", reason))


def is_better(second: EngineText, first: EngineText) -> bool:
    if second.problem:
        return False
    return bool(first.problem) or letters(second.text) > letters(first.text)
