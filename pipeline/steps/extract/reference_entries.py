"""Separate and count the entries of a reference list: by numbers, labels or years. Pure.

The strictest style that fits is used: a sequence of numbers, labels, and last the years of author-year
entries. The patterns are our own; their order follows a survey of 35 papers counted by hand.
"""

# ruff: noqa: RUF001 - full-width and typographic signs are what papers print

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from pipeline.steps.extract.reference import Reference
from pipeline.steps.extract.reference_fields import fields_of
from pipeline.steps.extract.reference_ids import arxiv_id_of, doi_of

MAX_GAP = 3
"""Consecutive numbers that a sequence may miss: a marker lost in a bad line break."""

LONGEST_ENTRY = 25
"""Lines without another year after which an author-year list has ended: an appendix follows."""

YEAR = r"(?:1[5-9]|20)\d\d[a-z]?"

NUMBERED = {
    "bracketed": re.compile(r"^[\[［【](\d{1,3})[\]］】]"),
    "numbered": re.compile(r"^(\d{1,3})\.(?!\d)\s*(?=\D)"),
    "parenthesised": re.compile(r"^\((\d{1,3})\)\s*(?=\D)"),
    "plain": re.compile(r"^(\d{1,3})\s+(?=[^\W\d_])"),
}
"""How a numbered entry starts its line, the strictest first."""

LABEL = re.compile(rf"^\[(?:[A-Z][A-Za-z+]{{0,8}}['’]?\d{{2}}[a-z]?|[A-Z][^\[\]]{{2,60}}{YEAR})\]")

AUTHOR_YEAR = (
    re.compile(rf"\((?:{YEAR}(?:,[^()]{{0,30}})?|n\.d\.|in press)\)\s?[.,:]"),  # APA, JSS: (2004).
    re.compile(rf"(?<=[.,\]])\s{YEAR}\.\s"),  # ACL, Chicago: . 2004.
    re.compile(rf"(?<=[.\w])\s{YEAR},\s(?=[A-Z])"),  # AAS: A. 2004, ApJ
    re.compile(rf"\({YEAR}\)\s(?=\w)"),  # Springer: Name A (2004) Title
)
"""Where an entry has its year, by style; the most frequent style is the list's."""

NAME = r"(?:(?:v[ao]n|de[nlr]?|di|da|du|la|le|ter)\s)*[^\W\d_a-z][\w'’\-]*"

AUTHOR_START = re.compile(
    rf"^(?!In\s)(?:{NAME}(?:\s{NAME})?,\s(?:[^\W\d_a-z]\.|[^\W\d_a-z][a-z])|"  # Abel, A. or Abel, Ann
    rf"{NAME}\s[A-Z]{{1,4}}[\s,.(]|"  # Abel AB, or Abel A (2004)
    rf"{NAME}\s(?:[A-Z]\.\s)*{NAME}(?:,|\sand\s|\.\s))"  # Ann B. Abel and
)
"""How the first author's name begins an entry, by style."""

FULL_STOP = re.compile(r"(?<!\b[^\W\d_a-z])\.$")
"""The end of a sentence, not of an initial."""

ENTRY_END = re.compile(rf"{FULL_STOP.pattern}|[)\]”\"/\d]$|://|\bdoi\b|\bDOI\b")
"""How an entry's last line ends: a full stop, a URL, a page number."""

NEW_SENTENCE = re.compile(r"^(?!.*(?:\bdoi\b|://|arXiv))[^\W\d_a-z(].*\s")
"""A line that does not continue a URL, such as the text after the last entry."""

SPACELESS = "\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef"
"""Scripts written without spaces: Chinese and Japanese with their punctuation."""

BREAK = re.compile(rf"(?<=[^\W\d])- (?=[a-z])|(?<=[{SPACELESS}]) (?=[{SPACELESS}])")
"""What joining lines leaves: a hyphen inside a word, a space in a script without spaces."""


@dataclass(frozen=True)
class Start:
    """The line (from 0) at which the entry of this number starts."""

    line: int
    number: int


@dataclass(frozen=True)
class Entries:
    """The number of entries in a list, its style, and the entries that could be separated.

    (None, "", ()) if none could be. Fewer `entries` than `count` means that numbers are missing at the
    start of lines; their text is part of the entry before.
    """

    count: int | None = None
    style: str = ""
    entries: tuple[Reference, ...] = ()


def entries_of(section: Sequence[str], pages: Sequence[int] = ()) -> Entries:
    """The entries in the lines of a list. `pages`: the page of each line, if they are known."""
    years = year_lines(section)
    for style, pattern in NUMBERED.items():
        starts = chain(section, pattern)
        if is_list(starts) and starts[-1].number >= len(years) / 2:
            return numbered(section, starts, style, pages)
    labels = [i for i, line in enumerate(section) if LABEL.match(line)]
    if len(labels) >= 2 and len(labels) >= len(years) / 2:
        return listed(section, labels, "labelled", pages)
    starting = author_starts(section, years)
    return listed(section, starting, "author-year", pages) if starting else Entries()


def numbered(
    section: Sequence[str], starts: Sequence[Start], style: str, pages: Sequence[int] = ()
) -> Entries:
    return Entries(starts[-1].number, style, tuple(references(section, starts, pages)))


def listed(section: Sequence[str], lines: Sequence[int], style: str, pages: Sequence[int] = ()) -> Entries:
    starts = [Start(line, number) for number, line in enumerate(lines, 1)]
    return Entries(len(starts), style, tuple(references(section, starts, pages)))


def chain(lines: Iterable[str], pattern: re.Pattern[str]) -> list[Start]:
    """Follow 1, 2, 3 … through the lines, ignoring numbers that do not continue the sequence."""
    starts: list[Start] = []
    last = 0
    for i, line in enumerate(lines):
        match = pattern.match(line)
        if match and last < int(match[1]) <= last + MAX_GAP:
            last = int(match[1])
            starts.append(Start(i, last))
    return starts


def is_list(starts: Sequence[Start]) -> bool:
    return bool(starts) and len(starts) >= starts[-1].number / 2


def year_lines(section: Sequence[str]) -> list[int]:
    """The line of each entry's year, in the most frequent author-year style, up to the list's end."""
    text = " ".join(section) + " "
    firsts = list(accumulate((len(line) + 1 for line in section), initial=0))
    found: list[int] = []
    for pattern in AUTHOR_YEAR:
        years = [bisect_right(firsts, match.start()) - 1 for match in pattern.finditer(text)]
        found = max(found, years, key=len)
    ends = [i for i, (a, b) in enumerate(pairwise(found), 1) if b - a > LONGEST_ENTRY]
    return found[: ends[0]] if ends else found


def author_starts(section: Sequence[str], years: Sequence[int]) -> list[int]:
    """The line at which each entry starts: the most likely between the previous year and its own."""
    starts = []
    for before, at in pairwise([-1, *years]):
        between = range(before + 1, at + 1)
        if between:
            starts.append(max(between, key=lambda i: likelihood(section, i)))
    return starts


def likelihood(section: Sequence[str], i: int) -> tuple[int, int]:
    """How likely line i is an entry's first. Of equal lines the first with an author's name wins; without
    such a line the last, which is nearest to the year."""
    if section[i].startswith("("):
        return 0, -i
    names = bool(AUTHOR_START.match(section[i]))
    after_end = i == 0 or bool(ENTRY_END.search(section[i - 1]))
    return 2 * names + after_end, -i if names else i


def references(
    section: Sequence[str], starts: Sequence[Start], pages: Sequence[int] = ()
) -> Iterator[Reference]:
    """Each entry, from its first line to the next one's."""
    ends = [*(start.line for start in starts[1:]), end_of_last(section, starts)]
    for start, end in zip(starts, ends, strict=True):
        lines = section[start.line : end]
        text = unbroken(lines).strip()
        page = pages[start.line] if pages else None
        yield Reference(text, doi_of(lines), arxiv_id_of(text), start.number, page, *fields_of(text))


def end_of_last(section: Sequence[str], starts: Sequence[Start]) -> int:
    """The line after the last entry: after its year and a full stop, at most as long as the longest
    entry before it."""
    longest = max((b.line - a.line for a, b in pairwise(starts)), default=LONGEST_ENTRY)
    first = starts[-1].line
    stop = min(len(section), first + longest)
    dated = (i for i in range(first, stop) if re.search(YEAR, section[i]))
    for i in range(next(dated, stop) + 1, stop):
        if FULL_STOP.search(section[i - 1]) and NEW_SENTENCE.match(section[i]):
            return i
    return stop


def unbroken(lines: Iterable[str]) -> str:
    """The lines joined to one, with words broken over two lines joined as well."""
    return BREAK.sub("", " ".join(lines)) + " "
