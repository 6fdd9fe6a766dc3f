"""The text of a page from the words that Tesseract found and where: its columns one after the other. Pure.

Tesseract reads two columns as one where one of them is short, and takes the labels of a list for a column of
their own. So where a page has a gutter that next to no word crosses, and lines of prose on both sides of it,
its lines are put together and ordered by their places; any other page is as Tesseract orders it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import NamedTuple

from pipeline.steps.pdf.column_order import LEAST_LINES, is_right_to_left

HEADING = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext"

FROM, TO, STEPS = 0.4, 0.6, 80
"""Shares of the page's width between which its gutter is looked for, and at how many places."""

MOST_ACROSS = 0.15
"""The share of lines that may go across the gutter: titles, captions, stamps."""

PROSE = 0.25
"""The least share of the page's width that half of a column's lines have; columns of a table have less."""

NARROW, WIDE, CELLS = 0.7, 1.5, 3
"""Gaps in heights of a word: wider than between words, as between cells; and how many make a table's row."""

MOST_WORDS = 10_000
"""Words of a page whose places are looked at; a page with more is as Tesseract orders it."""


class Word(NamedTuple):
    line: tuple[int, int, int]
    left: int
    top: int
    width: int
    height: int
    text: str

    @property
    def right(self) -> int:
        return self.left + self.width

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


class Piece(NamedTuple):
    """Words beside each other."""

    words: tuple[Word, ...]

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def left(self) -> int:
        return self.words[0].left

    @property
    def right(self) -> int:
        return self.words[-1].right


def text_of_page(output: str) -> str:
    """The text of Tesseract's table of words; any other output as it is."""
    heading, _, rows = output.partition("\n")
    if heading.strip() != HEADING:
        return output
    words, width = _words(rows)
    if len(words) <= MOST_WORDS and (lines := _in_columns(words, width)):
        return "\n".join(lines) + "\n"
    return _as_ordered(words)


def _words(rows: str) -> tuple[list[Word], int]:
    words, width = [], 0
    for row in rows.splitlines():
        cells = row.split("\t", 11)
        if len(cells) == 12 and cells[0] == "1":
            width = int(cells[8])
        if len(cells) == 12 and cells[0] == "5" and cells[11].strip():
            block, paragraph, line, _, left, top, wide, high = map(int, cells[2:10])
            words.append(Word((block, paragraph, line), left, top, wide, high, cells[11].strip()))
    return words, width


def _as_ordered(words: Sequence[Word]) -> str:
    """As Tesseract writes it: a line each, and an empty one behind a paragraph."""
    text = []
    for _, paragraph in groupby(words, key=lambda word: word.line[:2]):
        lines = groupby(paragraph, key=lambda word: word.line)
        text.append("".join(Piece(tuple(line)).text + "\n" for _, line in lines))
    return "\n".join(text)


def _in_columns(words: Sequence[Word], width: int) -> list[str]:
    """The lines of a page of two columns; none of any other."""
    if not words or is_right_to_left(" ".join(word.text for word in words[:400])):
        return []
    lines = [list(line) for _, line in groupby(words, key=lambda word: word.line)]
    if median(word.width / (word.height or 1) for word in words) < 1:  # turned
        return []
    gutter = _gutter(words, width)
    pieces = [piece for line in lines for piece in _pieces(line, gutter)]
    across = [piece for piece in pieces if piece.left < gutter < piece.right]
    sides = [
        _rows(piece for piece in pieces if piece.right <= gutter),
        _rows(piece for piece in pieces if piece.left >= gutter),
    ]
    are_columns = all(
        len(side) >= LEAST_LINES and median(row.right - row.left for row in side) >= PROSE * width
        for side in sides
    )
    if not are_columns or len(across) > MOST_ACROSS * len(pieces):
        return []
    return list(_read(sides, _rows(across)))


def _gutter(words: Sequence[Word], width: int) -> float:
    """Where fewest words go across, in the middle of such places."""
    places = [width * (FROM + (TO - FROM) * step / STEPS) for step in range(STEPS + 1)]
    crossing = [sum(word.left < place < word.right for word in words) for place in places]
    fewest = [place for place, count in zip(places, crossing, strict=True) if count == min(crossing)]
    return fewest[len(fewest) // 2]


def _pieces(line: Sequence[Word], gutter: float) -> Iterator[Piece]:
    """The line, in two where a gap wider than between words lies at the gutter, unless it is a table's."""
    ordered = tuple(sorted(line, key=lambda word: word.left))
    gaps = {
        at: (after.left - before.right) / (max(before.height, after.height) or 1)
        for at, (before, after) in enumerate(pairwise(ordered), start=1)
    }
    is_row = sum(gap > WIDE for gap in gaps.values()) >= CELLS
    for at, gap in gaps.items():
        if gap > NARROW and not is_row and ordered[at - 1].right <= gutter <= ordered[at].left:
            yield Piece(ordered[:at])
            yield Piece(ordered[at:])
            return
    yield Piece(ordered)


def _rows(pieces: Iterable[Piece]) -> list[Piece]:
    """From top to bottom; a label and what stands beside it are one."""
    rows: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: piece.words[0].middle):
        last = rows[-1] if rows else None
        if last and _are_beside(last, piece):
            ordered = sorted((last, piece), key=lambda each: each.left)
            rows[-1] = Piece((*ordered[0].words, *ordered[1].words))
        else:
            rows.append(piece)
    return rows


def _are_beside(one: Piece, other: Piece) -> bool:
    first, second = sorted((one, other), key=lambda piece: piece.left)
    before, after = first.words[-1], second.words[0]
    apart = abs(before.middle - after.middle)
    return before.right <= after.left and apart < 0.5 * min(before.height, after.height)


def _read(sides: Sequence[list[Piece]], across: list[Piece]) -> Iterator[str]:
    """Both columns as far as a line across the page, then that line."""
    waiting = [list(side) for side in sides]
    for line in [*across, None]:
        for side in waiting:
            while side and (line is None or side[0].words[0].middle < line.words[0].middle):
                yield side.pop(0).text
        if line is not None:
            yield line.text
