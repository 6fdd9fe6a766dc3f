"""Which engine's text of a page is used, and why: PDFium's, else pypdf's, else none. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pipeline.steps.extract.clean_text import clean
from pipeline.steps.extract.doubtful_layers import MOST_LOST, Doubt, lost_letters
from pipeline.steps.extract.legibility import ENOUGH_LETTERS, letters, problem_with
from pipeline.steps.extract.page_text import PageText
from pipeline.steps.pdf.errors import LIMITS
from pipeline.steps.pdf.sandbox import ReadResult, describe

NAMELESS = "its fonts have no character map"

FONTS = {"nameless": NAMELESS, "collection": "its fonts need character tables that pypdf lacks"}

LITTLE_TEXT = "it found almost no text"

ODD = {"turned": "most of its lines are turned", "arabic": "most of its letters are Arabic"}
"""Texts whose lines, or whose letters in a word, PDFium puts into another order."""

AS_MANY = 0.9
"""Of PDFium's letters of such a page, pypdf must have found so many to be used."""

LIMIT_REACHED = "LimitReachedError"
"""The name of pypdf's error over a page that it would have to unpack too much for."""

LETTERS_MISSING = "letters are missing in its text"


@dataclass(frozen=True)
class EngineText:
    """A page's text by one engine, cleaned. `problem`: why it is unusable, "" if it is usable; `cut`:
    there was more text; `lost`: letters that its fonts map to nothing; `odd`: a key of `ODD`, or "";
    `draws`: text is drawn, though little of it may have been found."""

    text: str = ""
    problem: str = ""
    cleaned: int = 0
    cut: bool = False
    lost: int = 0
    odd: str = ""
    draws: bool = False

    @property
    def has_little_text(self) -> bool:
        """Much less than is drawn: the other engine may find more."""
        return self.draws and not self.problem and not self.cut and letters(self.text) < ENOUGH_LETTERS

    @property
    def lacks_letters(self) -> bool:
        return not self.problem and self.lost >= MOST_LOST


def engine_text(reading: ReadResult, number: int) -> EngineText:
    """A page's text by one engine; unreadable text is left out, since wrong letters are worse than none."""
    line = reading.lines.get(number)
    if line is None:
        return EngineText(problem=unread_reason(reading, number))
    if line.get("error"):
        return EngineText(problem=f"it cannot read the page ({line['error']})")
    if line.get("fonts"):
        return EngineText(problem=FONTS[str(line["fonts"])])
    raw = str(line.get("text", ""))
    text, cleaned = clean(raw)
    if junk := line["problem"] if "problem" in line else problem_with(text):
        return EngineText(problem=str(junk))
    return EngineText(
        text,
        cleaned=cleaned,
        cut=bool(line.get("cut")),
        lost=lost_letters(raw),
        odd=str(line.get("odd", "")),
        draws=bool(line.get("draws")),
    )


def unread_reason(reading: ReadResult, number: int) -> str:
    if reading.refused is not None:
        return f"it cannot open the file ({reading.refused.get('detail')})"
    return describe(reading.failed.get(number, reading.stopped)) or "no result"


def exceeded_limits(reading: ReadResult, number: int) -> bool:
    """Whether the page was not read because it, or the document before it, takes too much."""
    if reading.refused is not None:
        return reading.refused.get("refused") == "limit"
    if line := reading.lines.get(number):
        return line.get("error") == LIMIT_REACHED
    return reading.failed.get(number, reading.stopped).reason in LIMITS


def is_doubtful(first: EngineText) -> bool:
    """Whether pypdf may do better."""
    return bool(first.has_little_text or first.lacks_letters or first.problem or first.odd)


def doubts(first: EngineText) -> str:
    if first.problem or first.lacks_letters:
        return first.problem or LETTERS_MISSING
    return ODD.get(first.odd, LITTLE_TEXT)


class ChosenText(NamedTuple):
    """The page, and whether its text was cut."""

    page: PageText
    cut: bool = False


def choose_text(number: int, first: EngineText, second: EngineText | None) -> ChosenText:
    if second is not None and is_better(second, first):
        return chosen(number, second, "pypdf", f"PDFium: {doubts(first)}")
    if not first.problem:
        return chosen(number, first, "pdfium")
    reason = f"PDFium: {first.problem}"
    if second is not None:
        reason += f"; pypdf: {second.problem}"
    return ChosenText(PageText(number, "", "failed", reason))


def chosen(number: int, by: EngineText, source: str, reason: str = "") -> ChosenText:
    doubt = Doubt.LOST if by.lacks_letters else Doubt.NONE
    return ChosenText(PageText(number, by.text, source, reason, by.cleaned, doubt), by.cut)


def is_better(second: EngineText, first: EngineText) -> bool:
    if second.problem:
        return False
    if first.lacks_letters:
        return second.lost < first.lost
    if first.odd:
        return letters(second.text) >= AS_MANY * letters(first.text)
    return bool(first.problem) or letters(second.text) > letters(first.text)
