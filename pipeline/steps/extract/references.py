"""Find a paper's list of references, by rules. Pure: text in, entries out.

The rules, in order: drop lines that recur on many pages (a footer that cites the paper itself would
count once a page); find the heading whose next lines look like entries; without one, use the last
sequence of [n]. `reference_entries.py` then separates the entries. The patterns are our own; the order
of the rules follows a survey of 35 papers counted by hand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from pipeline.steps.extract.reference import Reference
from pipeline.steps.extract.reference_entries import (
    NUMBERED,
    YEAR,
    Entries,
    chain,
    entries_of,
    is_list,
    numbered,
    unbroken,
)

__all__ = ["Reference", "References", "before_references", "find_references", "unbroken"]

HEAD_SHARE = 0.4
HEAD_PAGES = 3
"""A line on at least this share of the pages, and on at least this many, is a running head."""

HEAD_WORDS = 3
"""A line of at least this many words that is the first or last of two pages is a running head, of left
or right pages in a short document."""

LONGEST_PAGE_NUMBER = 4
"""Digits of a page or line number on a line of its own; more are the rest of a broken DOI."""

LOOK_AHEAD = 60
"""Lines after a heading within which entries must appear."""

MAX_STARTS = 20
"""Lines starting with `[1]` that are tried as the start of a list, from the last."""

HEADING = re.compile(
    r"^(?:(?:\d{1,2}(?:\.\d)?|[IVX]{1,5}|[A-Z])[.)]?\s+)?"
    r"(?:references?(?:\s+(?:and\s+notes|cited|list))?|list\s+of\s+references|bibliography|"
    r"(?:literature|works)\s+cited|cited\s+literature|notes\s+and\s+references|literatur(?:e|"
    r"verzeichnis)?|bibliographie|r[ée]f[ée]rences|referencias|bibliograf[ií]a|"
    r"参考文献|参考資料|参考资料|引用文献|參考文獻|참고\s*문헌|список\s+литературы|литература)"
    r"\s*[:.]?$",
    re.IGNORECASE,
)

SPACED = re.compile(r"^(?:\S\s){5,}\S$")
"""A letter-spaced heading: R E F E R E N C E S."""

RUNNING_HEADING = re.compile(r"^(?:references\s+\d+|\d+\s+references)$", re.IGNORECASE)

SECTION_END = re.compile(
    r"^(?:(?:\d{1,2}|[A-Z])[.)]?\s+)?(?:appendi(?:x|ces)\b.{0,60}|supplement(?:ary|al)\b.{0,60}|"
    r"the\s+\w+\s+collaboration.{0,20}|about\s+the\s+authors?|author\s+(?:contributions|"
    r"information|biograph).{0,20}|affiliations?:?|acknowledge?ments?|附录.{0,30}|付録.{0,30})$",
    re.IGNORECASE,
)

NUMBER = re.compile(r"\d+")

PAGE_MARK = re.compile(r"^\[PAGE (\d{1,9})\]$", re.MULTILINE)

ENTRY_HINT = re.compile(rf"\b{YEAR}\b|^[\[(]?\d{{1,3}}[\]).]")


@dataclass(frozen=True)
class References:
    """`count` is None if no list was found, which is not the same as 0.

    `style`: `bracketed`, `numbered`, `parenthesised`, `plain`, `labelled`, `author-year`, or "" if the
    entries could not be separated; `section`: the list's text, or "". `entries`: those that could be
    separated, `count` of them, or fewer if numbers are missing.
    """

    count: int | None
    style: str
    section: str
    entries: tuple[Reference, ...] = ()


class NumberedLine(NamedTuple):
    """A line and the number of its page, which is 0 if the text has no marks."""

    text: str
    page: int


def find_references(text: str) -> References:
    """The references of a paper given as text with `[PAGE n]` lines between its pages."""
    lines = lines_of(text)
    texts = [line.text for line in lines]
    section = section_of(texts)
    pages = [line.page for line in lines[section.start : section.stop]]
    listed = texts[section.start : section.stop]
    if listed:
        found = entries_of(listed, pages)
    else:
        listed, found = without_heading(lines)
    return References(found.count, found.style, "\n".join(listed), found.entries)


def before_references(text: str) -> str:
    """The text before its list of references; all of it if there is none. Page marks are dropped."""
    texts = [line.text for line in lines_of(text)]
    start = heading_index(texts)
    return "\n".join(texts if start is None else texts[:start])


def lines_of(text: str) -> list[NumberedLine]:
    """The lines of a text with marks between its pages, without running heads."""
    numbers, pages = pages_of(text)
    kept = without_running_heads(pages)
    return [NumberedLine(line, number) for number, page in zip(numbers, kept, strict=True) for line in page]


def pages_of(text: str) -> tuple[list[int], list[list[str]]]:
    """The numbers of pages with text, and lines per page, stripped, without bare page numbers."""
    first, *marked = PAGE_MARK.split(text)
    parts = [(0, first), *((int(n), page) for n, page in zip(marked[::2], marked[1::2], strict=True))]
    pages = [(n, page) for n, page in parts if page.strip()]
    lines = [[line for line in map(tidy, page.split("\n")) if line] for _, page in pages]
    return [n for n, _ in pages], lines


def tidy(line: str) -> str:
    line = " ".join(line.split())
    if SPACED.match(line):
        line = line.replace(" ", "")
    return "" if len(line) <= LONGEST_PAGE_NUMBER and line.isdecimal() else line


def without_running_heads(pages: Sequence[Sequence[str]]) -> list[list[str]]:
    """The pages without lines that, apart from digits, appear once or twice on many of them."""
    shapes = [list(map(shape_of, page)) for page in pages]
    heads = shapes_of_heads(shapes)
    edges = Counter(line for page in pages for line in {*page[:1], *page[-1:]})
    repeated = {line for line, times in edges.items() if times >= 2 and len(line.split()) >= HEAD_WORDS}
    return [
        [
            line
            for line, shape in zip(page, shapes_of_page, strict=True)
            if shape not in heads and line not in repeated and line not in headings
        ]
        for page, shapes_of_page in zip(pages, shapes, strict=True)
        for headings in [running_headings(page)]
    ]


def shapes_of_heads(shapes: Sequence[Sequence[str]]) -> set[str]:
    """The shapes that appear once or twice on many of the pages."""
    total, often = Counter[str](), Counter[str]()
    for page in shapes:
        total.update(page)
        often.update(set(page))
    least = max(HEAD_PAGES, HEAD_SHARE * len(shapes))
    return {
        shape for shape, on in often.items() if on >= least and total[shape] <= 2 * on and has_words(shape)
    }


def shape_of(line: str) -> str:
    return NUMBER.sub("#", line)


def has_words(shape: str) -> bool:
    """Whether a line has words: `[#]` recurs on every page of references too."""
    return sum(map(str.isalpha, shape)) >= 4


def running_headings(page: Sequence[str]) -> set[str]:
    """`References 11` or `12 References` at the edge of a page is a running head, not a heading."""
    return {line for line in (*page[:2], *page[-2:]) if RUNNING_HEADING.match(line)}


def section_of(lines: Sequence[str]) -> range:
    """The places of the lines between the heading of the list and the section after it."""
    start = heading_index(lines)
    return range(0) if start is None else until_end(lines, start + 1)


def until_end(lines: Sequence[str], first: int) -> range:
    """The places from this line to the section after the list."""
    ends = (i for i in range(first, len(lines)) if SECTION_END.match(lines[i]))
    return range(first, next(ends, len(lines)))


def heading_index(lines: Sequence[str]) -> int | None:
    """The last heading before lines that look like entries; an earlier one is often part of a sentence."""
    headings = [i for i, line in enumerate(lines) if len(line) < 60 and HEADING.match(line)]
    if not headings:
        return None
    hints = list(accumulate((bool(ENTRY_HINT.search(line)) for line in lines), initial=0))
    return next((i for i in reversed(headings) if is_before_entries(i, hints)), None)


def is_before_entries(heading: int, hints: Sequence[int]) -> bool:
    """Whether the lines after this one look like entries. `hints`: how many lines before each look so."""
    first, last = heading + 1, min(heading + 1 + LOOK_AHEAD, len(hints) - 1)
    return hints[last] - hints[first] >= max(1, min(5, (last - first) / 5))


def without_heading(lines: Sequence[NumberedLine]) -> tuple[list[str], Entries]:
    """Physics papers often have no heading: the last sequence of [n] starting at 1."""
    pattern = NUMBERED["bracketed"]
    texts = [line.text for line in lines]
    firsts = [i for i, line in enumerate(texts) if (m := pattern.match(line)) and m[1] == "1"]
    for first in reversed(firsts[-MAX_STARTS:]):
        places = until_end(texts, first)
        section = texts[places.start : places.stop]
        starts = chain(section, pattern)
        if is_list(starts) and starts[-1].number >= HEAD_PAGES:
            pages = [line.page for line in lines[places.start : places.stop]]
            return section, numbered(section, starts, "bracketed", pages)
    return [], Entries()
