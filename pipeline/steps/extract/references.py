"""Find a paper's list of references, by rules. Pure: text in, entries out.

The rules, in order: drop lines that recur on many pages (a footer that cites the paper itself would
count once a page); find the heading whose next lines look like entries; without one, use the last
sequence of [n]. `reference_entries.py` then separates the entries. The patterns are our own; the order
of the rules follows a survey of 35 papers counted by hand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from pipeline.steps.extract.author_year import YEAR, list_without_heading
from pipeline.steps.extract.page_lines import NumberedLine, lines_of
from pipeline.steps.extract.reference import Reference
from pipeline.steps.extract.reference_entries import (
    NUMBERED,
    Entries,
    chain,
    entries_of,
    is_list,
    numbered,
    unbroken,
)

__all__ = ["Reference", "References", "before_references", "find_references", "unbroken"]

LOOK_AHEAD = 60
"""Lines after a heading within which entries must appear."""

SHORTEST_LIST = 3
"""Entries of a list without a heading."""

MAX_STARTS = 20
"""Lines starting with `[1]` that are tried as the start of a list, from the last."""

HEADING = re.compile(
    r"^(?:(?:\d{1,2}(?:\.\d)?|[IVX]{1,5}|[A-Z])[.)]?\s+|[■▪◼•●]\s*)?"
    r"(?:references?(?:\s+(?:and\s+notes|cited|list))?|list\s+of\s+references|bibliography|"
    r"(?:literature|works)\s+cited|cited\s+literature|notes\s+and\s+references|literatur(?:e|"
    r"verzeichnis)?|bibliographie|(?:r[ée]f[ée]rences|referencias|refer[êe]ncias)(?:\s+bibliogr[áa]\w{4,8})?|"
    r"bibliograf[ií]a|riferimenti\s+bibliografici|"
    r"参考文献|参考資料|参考资料|引用文献|參考文獻|참고\s*문헌|список\s+литературы|литература)"
    r"\s*[:.]?$",
    re.IGNORECASE,
)

SECTION_END = re.compile(
    r"^(?:(?:\d{1,2}|[A-Z]|[IVX]{1,5})[.)]?\s+)?(?:appendi(?:x|ces)\b.{0,60}|annex(?:es?)?\b.{0,60}|"
    r"supplement(?:ary|al)\b.{0,60}|supporting\s+information.{0,40}|the\s+\w+\s+collaboration.{0,20}|"
    r"about\s+the\s+authors?|author\s+(?:contributions|information|biograph).{0,20}|affiliations?:?|"
    r"biograph(?:y|ies|ical\b.{0,40})|acknowledge?ments?|(?:end\s?)?notes?|"
    r"(?:figure|table)s?(?:\s+(?:and\s+tables?\s+)?(?:captions?|legends?))|list\s+of\s+(?:figures|tables)|"
    r"(?:conflicts?|declarations?)\s+of.{0,40}|competing\s+interests?.{0,20}|funding.{0,20}|"
    r"data\s+availability.{0,20}|abbreviations|glossary|anhang.{0,60}|annexes?.{0,60}|"
    r"附录.{0,30}|付録.{0,30})\s*[:.]?$",
    re.IGNORECASE,
)

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
    """The last sequence of [n] starting at 1, else the last entries in the order of the alphabet."""
    texts, pages = [line.text for line in lines], [line.page for line in lines]
    pattern = NUMBERED["bracketed"]
    firsts = [i for i, line in enumerate(texts) if (m := pattern.match(line)) and m[1] == "1"]
    for first in reversed(firsts[-MAX_STARTS:]):
        places = until_end(texts, first)
        section = texts[places.start : places.stop]
        starts = chain(section, pattern)
        if is_list(starts) and starts[-1].number >= SHORTEST_LIST:
            return section, numbered(section, starts, "bracketed", pages[places.start : places.stop])
    if (start := list_without_heading(texts)) is not None:
        places = until_end(texts, start)
        section = texts[places.start : places.stop]
        return section, entries_of(section, pages[places.start : places.stop])
    return [], Entries()
