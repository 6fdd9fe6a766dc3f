"""The lines of a paper, page by page, without running heads and feet, page numbers and line numbers. Pure.

A head or foot is known by being repeated: word for word by the page beside or the one after, apart from
digits by many pages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from pipeline.steps.extract.author_year import ends_in_address
from pipeline.steps.extract.reference_ids import ends_in_doi, is_broken_doi

HEAD_SHARE = 0.4
HEAD_PAGES = 3
"""A line on at least this share of the pages, and on at least this many, is a running head."""

HEAD_WORDS = 3
"""Lines at the edge of two pages with at least this many words together are a running head, in a short paper
or of left or right pages."""

EDGE_LINES = 6
"""Lines at the edge of a page that may be a running head."""

NEAR_EDGE = 10
"""Lines from an edge within which most heads are, in whatever order a page is drawn."""

LONGEST_PAGE_NUMBER = 4
"""Digits of a page or line number on a line of its own; more are the rest of a broken DOI."""

LINE_NUMBERS = 5
"""Numbers on lines of their own, not at an edge, from which they number the lines of a page."""

SPACED = re.compile(r"^(?:\S\s){5,}\S$")
"""A letter-spaced heading: R E F E R E N C E S."""

RUNNING_HEADING = re.compile(r"^(?:references\s+\d+|\d+\s+references)$", re.IGNORECASE)

NUMBER = re.compile(r"\d+")

PAGE_MARK = re.compile(r"^\[PAGE (\d{1,9})\]$", re.MULTILINE)

EXPECTS_NUMBER = re.compile(r"(?:[,:;(–]|\d-|\b(?:[Pp]p?|[Vv]ol|[Nn]o|[Aa]rt)\.?)$")  # noqa: RUF001 - as printed

Page = list[str]


class NumberedLine(NamedTuple):
    """A line and the number of its page, which is 0 if the text has no marks."""

    text: str
    page: int


def lines_of(text: str) -> list[NumberedLine]:
    """The lines of a text with `[PAGE n]` marks between its pages."""
    numbers, pages = pages_of(text)
    return list(without_numbers(numbers, without_running_heads(pages)))


def pages_of(text: str) -> tuple[list[int], list[Page]]:
    """The numbers of the pages with text, and the lines of each, stripped, without empty ones."""
    first, *marked = PAGE_MARK.split(text)
    parts = [(0, first), *((int(n), page) for n, page in zip(marked[::2], marked[1::2], strict=True))]
    pages = [(n, page) for n, page in parts if page.strip()]
    lines = [[line for line in map(tidy, page.split("\n")) if line] for _, page in pages]
    return [n for n, _ in pages], lines


def tidy(line: str) -> str:
    line = " ".join(line.split())
    return line.replace(" ", "") if SPACED.match(line) else line


def is_number(line: str) -> bool:
    return len(line) <= LONGEST_PAGE_NUMBER and line.isdecimal()


def without_running_heads(pages: Sequence[Sequence[str]]) -> list[Page]:
    """The pages without lines that are repeated at their edges, or appear once or twice on many pages."""
    cut = list(without_edges(pages))
    shapes = [list(map(shape_of, page)) for page in cut]
    heads = shapes_of_heads(shapes)
    kept = []
    for page, shapes_of_page in zip(cut, shapes, strict=True):
        left_out = running_headings(page)
        pairs = zip(page, shapes_of_page, strict=True)
        kept.append([line for line, shape in pairs if shape not in heads and line not in left_out])
    return kept


def without_edges(pages: Sequence[Sequence[str]]) -> Iterator[Page]:
    """The pages without the lines at their edges that one of the two pages before or after has too."""
    tops = repeated([page[:EDGE_LINES] for page in pages])
    feet = repeated([page[: -EDGE_LINES - 1 : -1] for page in pages])
    for page, top, foot in zip(pages, tops, feet, strict=True):
        yield list(page[top : max(top, len(page) - foot)])


def repeated(edges: Sequence[Sequence[str]]) -> list[int]:
    """How many lines of each page's edge, from outside, the edge of a page near it has too."""
    most = [0] * len(edges)
    wordy = [" ".join(edge).count(" ") + 1 >= HEAD_WORDS for edge in edges]
    for apart in (1, 2):
        for place, (edge, other) in enumerate(zip(edges, edges[apart:], strict=False)):
            if wordy[place] and wordy[place + apart] and are_alike(edge[0], other[0], apart):
                count = shared(edge, other, apart)
                most[place], most[place + apart] = max(most[place], count), max(most[place + apart], count)
    return most


def shared(edge: Sequence[str], other: Sequence[str], apart: int) -> int:
    """How many lines of two edges are alike, from outside; none if they have too few words."""
    count = words = 0
    for line, its_like in zip(edge, other, strict=False):
        if not are_alike(line, its_like, apart):
            break
        count += 1
        words += 0 if is_number(line) else line.count(" ") + 1
    return count if words >= HEAD_WORDS else 0


def are_alike(one: str, other: str, apart: int) -> bool:
    """Whether they are the same, but for the number of their page."""
    if one == other or (is_number(one) and is_number(other)):
        return True
    if len(one) > LONGEST_HEAD or shape_of(one) != shape_of(other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    differing = [(a, b) for a, b in pairs if a != b]
    return len(differing) == 1 and all(
        max(len(a), len(b)) <= LONGEST_PAGE_NUMBER and abs(int(a) - int(b)) == apart for a, b in differing
    )


LONGEST_HEAD = 300
"""Characters of a running head with the number of its page in it."""


def shapes_of_heads(shapes: Sequence[Sequence[str]]) -> set[str]:
    """The shapes that appear once or twice on many of the pages, and mostly near their edges."""
    total = Counter(chain.from_iterable(shapes))
    often = Counter(chain.from_iterable(map(set, shapes)))
    outside = Counter(chain.from_iterable(map(near_edges, shapes)))
    least = max(HEAD_PAGES, HEAD_SHARE * len(shapes))
    return {
        shape
        for shape, on in often.items()
        if on >= least and total[shape] <= 2 * on and 2 * outside[shape] >= total[shape] and has_words(shape)
    }


def near_edges(page: Sequence[str]) -> Sequence[str]:
    return page if len(page) <= 2 * NEAR_EDGE else (*page[:NEAR_EDGE], *page[-NEAR_EDGE:])


def shape_of(line: str) -> str:
    """The line with its numbers masked; not those of an address, which tell one from another."""
    if not ends_in_address(line):
        return NUMBER.sub("#", line)
    before, blank, address = line.rpartition(" ")
    return NUMBER.sub("#", before) + blank + address


def has_words(shape: str) -> bool:
    """Whether a line has words: `[#]` recurs on every page of references too."""
    return sum(map(str.isalpha, shape)) >= 4


def running_headings(page: Sequence[str]) -> set[str]:
    """`References 11` or `12 References` at the edge of a page is a running head, not a heading."""
    edges = (*page[:2], *page[-2:]) if len(page) > 2 else page
    return {line for line in edges if RUNNING_HEADING.match(line)}


def without_numbers(numbers: Sequence[int], pages: Sequence[Sequence[str]]) -> Iterator[NumberedLine]:
    """All lines, without the numbers of pages and of lines. A number that the line before lacks stays: it is
    the end of a broken DOI, or a page after a comma."""
    shifts = Counter(
        int(line) - number
        for number, page in zip(numbers, pages, strict=True)
        for line in edges_of(page)
        if is_number(line)
    )
    before = ""
    for number, page in zip(numbers, pages, strict=True):
        has_line_numbers = numbers_of_lines(page) >= LINE_NUMBERS
        for place, line in enumerate(page):
            if is_number(line):
                shift = int(line) - number
                is_edge = place in (0, len(page) - 1)
                if has_line_numbers or is_of_page(line, is_edge, shift, shifts, before):
                    continue
                if not (is_broken_doi(before) or EXPECTS_NUMBER.search(before)) and (
                    not ends_in_doi(before) or (is_edge and not line.startswith("0")) or shifts[shift] > 1
                ):
                    continue
            yield NumberedLine(line, number)
            before = line


def numbers_of_lines(page: Sequence[str]) -> int:
    """How many numbers stand alone, without those at the edges and behind a DOI, which may be its end."""
    return sum(is_number(line) and not ends_in_doi(before) for before, line in pairwise(page[:-1]))


def is_of_page(line: str, is_edge: bool, shift: int, shifts: Counter[int], before: str) -> bool:
    """Whether a number is that of its page; none begins with a zero, and a single one may end a DOI."""
    if not is_edge or line.startswith("0"):
        return False
    return shifts[shift] > 1 or (shift == 0 and not ends_in_doi(before))


def edges_of(page: Sequence[str]) -> tuple[str, ...]:
    return tuple(page) if len(page) < 2 else (page[0], page[-1])
