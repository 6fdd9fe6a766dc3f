"""Which engine's text of a page is taken, and why: pypdf's, else PDFium's, else none. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.steps.extract.clean_text import clean
from pipeline.steps.extract.legibility import ENOUGH_LETTERS, letters, why_junk
from pipeline.steps.extract.page_text import PageText
from pipeline.steps.pdf.sandbox import Reading, told

NAMELESS = "its fonts do not say which letters they draw"

FONTS = {"nameless": NAMELESS, "collection": "its fonts need tables of letters which pypdf has not"}

SCANT = "it found almost no text"


@dataclass(frozen=True)
class Heard:
    """What one engine made of a page, cleaned. `against` says why it cannot be taken, "" if it can;
    `cut` that more text was there."""

    text: str = ""
    against: str = ""
    cleaned: int = 0
    cut: bool = False

    @property
    def is_scant(self) -> bool:
        """It may be all there is, or the other engine may find more."""
        return not self.against and not self.cut and letters(self.text) < ENOUGH_LETTERS


def heard(reading: Reading, number: int) -> Heard:
    """What an engine made of this page. Wrong letters are worse than none: junk comes back empty."""
    line = reading.lines.get(number)
    if line is None:
        return Heard(against=why_unread(reading, number))
    if line.get("error"):
        return Heard(against=f"it cannot read it ({line['error']})")
    if line.get("fonts"):
        return Heard(against=FONTS[str(line["fonts"])])
    text, cleaned = clean(str(line.get("text", "")))
    if junk := why_junk(text):
        return Heard(against=junk)
    return Heard(text, cleaned=cleaned, cut=bool(line.get("cut")))


def why_unread(reading: Reading, number: int) -> str:
    if reading.refused is not None:
        return f"it cannot open the file ({reading.refused.get('detail')})"
    return told(reading.failed.get(number, reading.stopped)) or "no answer came"


def is_doubtful(first: Heard) -> bool:
    """Whether the second engine may do better. Letters that are nowhere in the file it would only
    guess, as pypdf did."""
    return first.is_scant or bool(first.against and first.against != NAMELESS)


def chosen(number: int, first: Heard, second: Heard | None) -> tuple[PageText, bool]:
    """The page, and whether its text was cut."""
    if second is not None and is_better(second, first):
        reason = f"pypdf: {first.against or SCANT}"
        return PageText(number, second.text, "pdfium", reason, second.cleaned), second.cut
    if not first.against:
        return PageText(number, first.text, "pypdf", cleaned=first.cleaned), first.cut
    reason = f"pypdf: {first.against}"
    if second is not None:
        reason += f"; PDFium: {second.against}"
    return PageText(number, "", "failed", reason), False


def is_better(second: Heard, first: Heard) -> bool:
    if second.against:
        return False
    return bool(first.against) or letters(second.text) > letters(first.text)
