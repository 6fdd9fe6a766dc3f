"""Which engine's text of a page is used, and why: pypdf's, else PDFium's, else none. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pipeline.steps.extract.clean_text import clean
from pipeline.steps.extract.doubtful_layers import MOST_LOST, Doubt, lost_letters
from pipeline.steps.extract.legibility import ENOUGH_LETTERS, letters, problem_with
from pipeline.steps.extract.page_text import PageText
from pipeline.steps.pdf.sandbox import ReadResult, describe

NAMELESS = "its fonts have no character map"

FONTS = {"nameless": NAMELESS, "collection": "its fonts need character tables that pypdf lacks"}

LITTLE_TEXT = "it found almost no text"

LETTERS_MISSING = "letters are missing in its text"


@dataclass(frozen=True)
class EngineText:
    """A page's text by one engine, cleaned. `problem`: why it is unusable, "" if it is usable; `cut`:
    there was more text; `lost`: letters that its fonts map to nothing."""

    text: str = ""
    problem: str = ""
    cleaned: int = 0
    cut: bool = False
    lost: int = 0

    @property
    def has_little_text(self) -> bool:
        """Either the page has no more, or the other engine may find more."""
        return not self.problem and not self.cut and letters(self.text) < ENOUGH_LETTERS

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
    return EngineText(text, cleaned=cleaned, cut=bool(line.get("cut")), lost=lost_letters(raw))


def unread_reason(reading: ReadResult, number: int) -> str:
    if reading.refused is not None:
        return f"it cannot open the file ({reading.refused.get('detail')})"
    return describe(reading.failed.get(number, reading.stopped)) or "no result"


def is_doubtful(first: EngineText) -> bool:
    """Whether the second engine may do better. Letters that are nowhere in the file it would only
    guess, as pypdf does."""
    return first.has_little_text or first.lacks_letters or bool(first.problem and first.problem != NAMELESS)


class ChosenText(NamedTuple):
    """The page, and whether its text was cut."""

    page: PageText
    cut: bool = False


def choose_text(number: int, first: EngineText, second: EngineText | None) -> ChosenText:
    if second is not None and is_better(second, first):
        why = first.problem or (LETTERS_MISSING if first.lacks_letters else LITTLE_TEXT)
        return chosen(number, second, "pdfium", f"pypdf: {why}")
    if not first.problem:
        return chosen(number, first, "pypdf")
    reason = f"pypdf: {first.problem}"
    if second is not None:
        reason += f"; PDFium: {second.problem}"
    return ChosenText(PageText(number, "", "failed", reason))


def chosen(number: int, by: EngineText, source: str, reason: str = "") -> ChosenText:
    doubt = Doubt.LOST if by.lacks_letters else Doubt.NONE
    return ChosenText(PageText(number, by.text, source, reason, by.cleaned, doubt), by.cut)


def is_better(second: EngineText, first: EngineText) -> bool:
    if second.problem:
        return False
    if first.lacks_letters:
        return second.lost < first.lost
    return bool(first.problem) or letters(second.text) > letters(first.text)
