"""A paper's text for a model: without running heads and references, with a line `[PAGE n]` before each page.

Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from pipeline.steps.extract.page_lines import PAGE_MARK, NumberedLine, lines_of
from pipeline.steps.extract.references import heading_index

MARK = re.compile(r"\[PAGE \d{1,9}\]")
"""As in `PAGE_MARK`, which wants a line of its own; cleaned text of a paper has none."""

MARK_TOKENS = 12
"""Most tokens of a mark with its line end, by our count."""


def marked_before_references(text: str) -> str:
    """The lines before the list of references, those of each page behind its mark."""
    lines = lines_of(text)
    start = heading_index([line.text for line in lines])
    return "\n".join(_marked(lines if start is None else lines[:start]))


def _marked(lines: Iterable[NumberedLine]) -> Iterator[str]:
    page = 0
    for line in lines:
        if line.page != page:
            page = line.page
            yield f"[PAGE {page}]"
        yield line.text


def without_marks(text: str) -> str:
    """The same without the marks."""
    return "".join(PAGE_MARK.split(text)[::2])


def whole_marks(text: str, cuts: Sequence[int]) -> list[int]:
    """The places where a text is cut, none of them within a mark or between it and its page."""
    marks = [match.span() for match in MARK.finditer(text)]
    starts = [start for start, _ in marks]
    moved = []
    for cut in cuts:
        at = bisect_left(starts, cut) - 1
        within = at >= 0 and not text[marks[at][1] : cut].strip() and cut < len(text)
        moved.append(marks[at][0] if within else cut)
    return moved


def marked_pieces(text: str, cuts: Sequence[int]) -> list[str]:
    """The pieces between these places, each beginning with the mark of its page."""
    marks = list(MARK.finditer(text))
    starts = [mark.start() for mark in marks]
    pieces = []
    for start, end in pairwise((0, *whole_marks(text, cuts))):
        piece = text[start:end].strip()
        begins = bisect_right(starts, start) - 1
        if piece and begins >= 0 and not MARK.match(piece):
            piece = f"{marks[begins][0]}\n{piece}"
        pieces.append(piece)
    return [piece for piece in pieces if piece]
