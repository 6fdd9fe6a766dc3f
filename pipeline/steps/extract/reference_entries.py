"""Tell the entries of a reference list apart and count them: by numbers, labels or years. Pure.

The strictest style that fits wins: a chain of numbers, labels, and last the years of author-year
entries. Every pattern here is our own; their order follows a survey of 35 papers counted by eye.
"""

# ruff: noqa: RUF001 - full-width and typographic signs are what papers print

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from pipeline.steps.extract.reference_ids import arxiv_id_of, doi_of

MAX_GAP = 3
"""Numbers a chain may miss in a row: a marker lost in a bad line break."""

LONGEST_ENTRY = 25
"""Lines without a next year after which an author-year list is over: what follows is an appendix."""

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
"""How the year stands in an entry, by style; the style found most often is the list's own."""

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
"""How an entry's last line ends: a full stop, an address, a page."""

NEW_SENTENCE = re.compile(r"^(?!.*(?:\bdoi\b|://|arXiv))[^\W\d_a-z(].*\s")
"""A line that does not go on with an address, as what follows the list's last entry."""

SPACELESS = "\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef"
"""Scripts written without spaces: Chinese and Japanese with their punctuation."""

BREAK = re.compile(rf"(?<=[^\W\d])- (?=[a-z])|(?<=[{SPACELESS}]) (?=[{SPACELESS}])")
"""What joining lines leaves behind: a hyphen in a word, a space in a script that has none."""


@dataclass(frozen=True)
class Reference:
    """One entry: its text on one line, and the DOI and arXiv id it gives, "" when it gives none.

    `number` is the one printed, else the entry's place in the list, from 1.
    """

    text: str
    doi: str
    arxiv_id: str
    number: int


@dataclass(frozen=True)
class Start:
    """The line (from 0) at which the entry of this number starts."""

    line: int
    number: int


@dataclass(frozen=True)
class Entries:
    """`count` entries in a list of this style, and those that could be told apart.

    (None, "", ()) when nothing tells any apart. Fewer `entries` than `count` means that numbers
    are missing at the lines' starts; their text is in the entry before.
    """

    count: int | None = None
    style: str = ""
    entries: tuple[Reference, ...] = ()


def entries_of(section: Sequence[str]) -> Entries:
    """The entries in the lines of a list."""
    years = year_lines(section)
    for style, pattern in NUMBERED.items():
        starts = chain(section, pattern)
        if is_list(starts) and starts[-1].number >= len(years) / 2:
            return numbered(section, starts, style)
    labels = [i for i, line in enumerate(section) if LABEL.match(line)]
    if len(labels) >= 2 and len(labels) >= len(years) / 2:
        return listed(section, labels, "labelled")
    starting = author_starts(section, years)
    return listed(section, starting, "author-year") if starting else Entries()


def numbered(section: Sequence[str], starts: Sequence[Start], style: str) -> Entries:
    return Entries(starts[-1].number, style, tuple(references(section, starts)))


def listed(section: Sequence[str], lines: Sequence[int], style: str) -> Entries:
    starts = [Start(line, number) for number, line in enumerate(lines, 1)]
    return Entries(len(starts), style, tuple(references(section, starts)))


def chain(lines: Iterable[str], pattern: re.Pattern[str]) -> list[Start]:
    """Follow 1, 2, 3 … through the lines; a number that does not continue is none of the list."""
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
    """The line of each entry's year, in the prevailing author-year style, to where the list ends."""
    text = " ".join(section) + " "
    firsts = list(accumulate((len(line) + 1 for line in section), initial=0))
    found: list[int] = []
    for pattern in AUTHOR_YEAR:
        years = [bisect_right(firsts, match.start()) - 1 for match in pattern.finditer(text)]
        found = max(found, years, key=len)
    ends = [i for i, (a, b) in enumerate(pairwise(found), 1) if b - a > LONGEST_ENTRY]
    return found[: ends[0]] if ends else found


def author_starts(section: Sequence[str], years: Sequence[int]) -> list[int]:
    """The line at which each entry starts: the likeliest between the year before and its own."""
    starts = []
    for before, at in pairwise([-1, *years]):
        between = range(before + 1, at + 1)
        if between:
            starts.append(max(between, key=lambda i: likelihood(section, i)))
    return starts


def likelihood(section: Sequence[str], i: int) -> tuple[int, int]:
    """How much line i looks like an entry's first. Of equals the first names an author, while the
    last, nearest the year, is best where nothing does."""
    if section[i].startswith("("):
        return 0, -i
    names = bool(AUTHOR_START.match(section[i]))
    after_end = i == 0 or bool(ENTRY_END.search(section[i - 1]))
    return 2 * names + after_end, -i if names else i


def references(section: Sequence[str], starts: Sequence[Start]) -> Iterator[Reference]:
    """The text of each entry."""
    ends = [*(start.line for start in starts[1:]), end_of_last(section, starts)]
    for start, end in zip(starts, ends, strict=True):
        lines = section[start.line : end]
        text = unbroken(lines).strip()
        yield Reference(text, doi_of(lines), arxiv_id_of(text), start.number)


def end_of_last(section: Sequence[str], starts: Sequence[Start]) -> int:
    """The line behind the last entry: after its year and a full stop, and no longer than the longest
    before it."""
    longest = max((b.line - a.line for a, b in pairwise(starts)), default=LONGEST_ENTRY)
    first = starts[-1].line
    stop = min(len(section), first + longest)
    dated = (i for i in range(first, stop) if re.search(YEAR, section[i]))
    for i in range(next(dated, stop) + 1, stop):
        if FULL_STOP.search(section[i - 1]) and NEW_SENTENCE.match(section[i]):
            return i
    return stop


def unbroken(lines: Iterable[str]) -> str:
    """The lines as one, words that were broken over two made whole."""
    return BREAK.sub("", " ".join(lines)) + " "
