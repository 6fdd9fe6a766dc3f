"""The lines of a page in the order in which they are read, where its right column is drawn first. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

MOST_PIECES = 50_000
"""Pieces of text on a page whose places are kept; a page with more keeps the order in which it is drawn."""

LEAST_LINES = 6
"""Lines of a column; fewer are a heading, an equation or a page number."""

RIGHT = 0.46
"""Share of the page's width from which a line begins in the right column."""

RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
"""The blocks of scripts from right to left, looked for first: asking for each letter takes longer."""

Matrix = Sequence[float]


class Line(NamedTuple):
    """A line, with its end, and where it begins, from the left and from below; None if that is not known."""

    text: str
    x: float | None = None
    y: float | None = None


class DrawnLines:
    """Collects the pieces of a page's text as they are drawn."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, float, float]] = []
        self.is_turned = False

    def see(self, text: str, cm: Matrix, tm: Matrix) -> None:
        if text and len(self.pieces) <= MOST_PIECES:
            x, y = tm[4] * cm[0] + tm[5] * cm[2] + cm[4], tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
            self.pieces.append((text, x, y))
            self.is_turned |= bool(text.strip()) and abs(tm[0] * cm[1] + tm[1] * cm[3]) > abs(tm[0] * cm[0])

    def in_order(self, text: str, left: float, width: float) -> str:
        """The text of the page, which begins at `left`; as it is if its lines are not known one by one."""
        if self.is_turned or not 0 < len(self.pieces) <= MOST_PIECES or width <= 0:
            return text
        lines = lines_of(self.pieces)
        if "".join(line.text for line in lines) != text or is_right_to_left(text):
            return text
        return "".join(line.text for line in in_reading_order(lines, left + RIGHT * width))


def lines_of(pieces: Sequence[tuple[str, float, float]]) -> list[Line]:
    """The lines that the pieces make, each at the place of its first piece."""
    lines, current = list[Line](), Line("")
    for text, x, y in pieces:
        for part in text.splitlines(keepends=True):
            if part.strip() and current.x is None:
                current = Line(current.text, x, y)
            current = current._replace(text=current.text + part)
            if part.endswith("\n"):
                lines.append(current)
                current = Line("")
    return [*lines, current]


def in_reading_order(lines: Sequence[Line], middle: float) -> list[Line]:
    """The lines, each right column that is drawn just before the left one beside it after that one."""
    columns = columns_of(lines, middle)
    place = 0
    while place + 1 < len(columns):
        (is_right, first), (next_is_right, second) = columns[place], columns[place + 1]
        if is_right and not next_is_right and are_beside(first, second):
            columns[place : place + 2] = [(False, with_end(second)), (True, with_end(first))]
            place += 1
        place += 1
    return [line for _, column in columns for line in column]


def columns_of(lines: Sequence[Line], middle: float) -> list[tuple[bool, list[Line]]]:
    """Runs of lines that begin on the same side; a run too short for a column belongs to the one before."""
    sides, side = list[bool](), False
    for line in lines:
        side = side if line.x is None else line.x >= middle
        sides.append(side)
    found: list[tuple[bool, list[Line]]] = []
    for is_right, run in groupby(zip(sides, lines, strict=True), key=lambda each: each[0]):
        column = [line for _, line in run]
        if found and (found[-1][0] == is_right or sum(line.x is not None for line in column) < LEAST_LINES):
            found[-1][1].extend(column)
        else:
            found.append((is_right, column))
    return found


def are_beside(right: Sequence[Line], left: Sequence[Line]) -> bool:
    """Whether both are columns, and the left one begins above the middle of the right one: neither a note nor
    the next part of a page does."""
    ours, theirs = [[line.y for line in column if line.y is not None] for column in (right, left)]
    if min(len(ours), len(theirs)) < LEAST_LINES:
        return False
    return max(theirs) > (max(ours) + min(ours)) / 2


def with_end(column: Sequence[Line]) -> list[Line]:
    """The column, its last line ended: another line may follow it now."""
    *before, last = column
    return [*before, last if last.text.endswith("\n") else last._replace(text=last.text + "\n")]


def is_right_to_left(text: str) -> bool:
    """Whether most of its first letters are of a script whose right column is the first."""
    if not RIGHT_TO_LEFT.search(text):
        return False
    found = [unicodedata.bidirectional(letter) for letter in text[:2000] if letter.isalpha()]
    return sum(each in ("R", "AL") for each in found) * 2 > len(found)
