"""Where the lines of a page's text stand, by PDFium, and which way they run; runs inside the sandbox."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from ctypes import byref, c_double
from typing import Any

from pypdfium2 import raw

from pipeline.steps.pdf.column_order import RIGHT, Line, in_reading_order, is_right_to_left

MOST_LINES = 5_000
"""Lines of a page whose places are asked for; those after them stay where they are."""

LEVEL = math.radians(20)
"""How much a line may slope; a scan's lines slope by a degree or two."""

LINE = re.compile("[^\r\n\ufffe]*(?:\r?\n|\r|\ufffe)|[^\r\n\ufffe]+")
"""PDFium has U+FFFE for a hyphen at the end of a line, and no other sign of its end; and for a letter that a
font maps to nothing."""

LOST = "\0"


class LinePlaces:
    """The lines of a text as PDFium gives it, and where each begins."""

    def __init__(self, page: Any, text_page: Any, text: str) -> None:
        self._page, self._raw, self._text = page, text_page.raw, text
        self._rotation = math.radians(page.get_rotation())
        self._turned = self._letters = 0
        self._x, self._y = c_double(), c_double()
        self._origin = byref(self._x), byref(self._y)
        # Characters after U+FFFF take two places in PDFium's count.
        self._is_wide = len(text.encode("utf-16-le")) > 2 * len(text)
        self._is_complete = len(text) == text_page.count_chars() and not self._is_wide
        lines = LINE.findall(text)
        self._lines = list(self._placed(lines[:MOST_LINES])) + [Line(line) for line in lines[MOST_LINES:]]

    @property
    def are_turned(self) -> bool:
        """Whether most letters are in lines that do not run from left to right as the page is shown."""
        return 2 * self._turned > self._letters

    def in_order(self) -> str:
        """The text, its columns from left to right where they are drawn the other way round."""
        if self._rotation or self.are_turned or is_right_to_left(self._text):
            return "".join(line.text for line in self._lines)
        left, _, right, _ = self._page.get_mediabox()
        middle = left + RIGHT * (right - left)
        return "".join(line.text for line in in_reading_order(self._lines, middle))

    def _placed(self, lines: list[str]) -> Iterator[Line]:
        place = 0
        for line in lines:
            begins = place + len(line) - len(line.lstrip())
            place += len(line.encode("utf-16-le")) // 2 if self._is_wide else len(line)
            as_printed = self._with_end(line, place - 1)
            yield self._line(as_printed, begins) if begins < place else Line(as_printed)

    def _with_end(self, text: str, end: int) -> str:
        """The line, as it ends on the page."""
        if text.endswith("\r\n"):
            return text[:-2] + "\n"
        if not text.endswith("\ufffe"):
            return text
        is_hyphen = raw.FPDFText_IsHyphen(self._raw, self._index(end)) == 1
        return text[:-1] + ("-\n" if is_hyphen else LOST)

    def _index(self, place: int) -> int:
        """PDFium's number of the character at this place of the text, which leaves some out."""
        if self._is_complete:
            return place
        return int(raw.FPDFText_GetCharIndexFromTextIndex(self._raw, place))

    def _line(self, text: str, place: int) -> Line:
        """The line that begins at this place of the text."""
        index = self._index(place)
        if not raw.FPDFText_GetCharOrigin(self._raw, index, *self._origin):
            return Line(text)
        self._letters += len(text)
        # Both count clockwise.
        angle = raw.FPDFText_GetCharAngle(self._raw, index) + self._rotation
        if angle and abs(math.remainder(angle, math.tau)) > LEVEL:
            self._turned += len(text)
        return Line(text, self._x.value, self._y.value)
