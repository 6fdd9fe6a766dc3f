"""Separate and count the entries of a reference list: by numbers, labels or years. Pure.

The strictest style that fits is used: a sequence of numbers, labels, and last the years of author-year
entries. The patterns are our own; their order follows a survey of 35 papers counted by hand.
"""

# ruff: noqa: RUF001 - full-width and typographic signs are what papers print

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipeline.steps.extract.author_names import SAME_AUTHOR, named_starts
from pipeline.steps.extract.author_year import YEAR, author_year_starts, year_lines
from pipeline.steps.extract.last_entry import end_of_last
from pipeline.steps.extract.reference import Reference
from pipeline.steps.extract.reference_fields import ReferenceFields, fields_of
from pipeline.steps.extract.reference_ids import arxiv_id_of, doi_of

MAX_GAP = 3
"""Consecutive numbers that a sequence may miss: a marker lost in a bad line break."""

MOST_DIVIDED = 3_000
"""Entries of a list that are divided into fields: no paper has more, a crafted one has any number."""

NUMBERED = {
    "bracketed": re.compile(r"^[\[［【](\d{1,3})[\]］】]"),
    "numbered": re.compile(r"^(\d{1,3})\.(?!\d)\s*(?=\D)"),
    "parenthesised": re.compile(r"^\((\d{1,3})\)\s*(?=[^\d:,;.])"),
    "plain": re.compile(r"^(\d{1,3})\s+(?=[^\W\d_])"),
}
"""How a numbered entry starts its line, the strictest first."""

LABEL = re.compile(
    r"^\[(?:[a-z]{2,4}\d{2}[a-z]?|"
    r"(?:[a-z]{1,3}['’ -]?)?(?![a-z])[^\W\d_](?:[^\W\d_]|['’+.-]){0,9}\d{2}[a-z]?|"
    rf"[A-Z][^\[\]]{{2,60}}{YEAR})\]"
)
"""As BibTeX's `alpha` makes them: `[Oko87]`, `[O'B09]`, `[vdB98]`, `[Łuk01a]`, `[van22]`; or a name and a
year."""

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
    dated = year_lines(section)
    named = named_starts(section)
    years = max(len(dated), len(named))
    for style, pattern in NUMBERED.items():
        starts = chain(section, pattern)
        if is_list(starts) and starts[-1].number >= years / 2:
            return numbered(section, starts, style, pages)
    labels = [i for i, line in enumerate(section) if LABEL.match(line)]
    if len(labels) >= 2 and len(labels) >= years / 2:
        return listed(section, labels, "labelled", pages)
    starting = author_year_starts(section, dated)
    if len(named) > len(starting) + len(starting) // 10:
        return listed(section, named, "author-year", pages)
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
    """Whether most of its numbers were found; a single one is a list if it is the first."""
    return (
        bool(starts) and (len(starts) > 1 or starts[0].number == 1) and len(starts) >= starts[-1].number / 2
    )


def references(
    section: Sequence[str], starts: Sequence[Start], pages: Sequence[int] = ()
) -> Iterator[Reference]:
    """Each entry, from its first line to the next one's."""
    ends = [*(start.line for start in starts[1:]), end_of_last(section, starts[-1].line, unbroken)]
    authors: tuple[str, ...] = ()
    for count, (start, end) in enumerate(zip(starts, ends, strict=True)):
        lines = section[start.line : end]
        text = unbroken(lines).strip()
        page = pages[start.line] if pages else None
        fields = fields_of(text) if count < MOST_DIVIDED else ReferenceFields()
        if authors and (same := SAME_AUTHOR.match(text)):
            fields = fields_of(f"{NOBODY} {text[same.end() :]}")._replace(authors=authors)
        authors = fields.authors
        yield Reference(text, doi_of(lines, of_entry=True), arxiv_id_of(text), start.number, page, *fields)


NOBODY = "Nobody, A."
"""In place of the dash that means the authors before: what stands behind is divided as behind a name."""


def unbroken(lines: Iterable[str]) -> str:
    """The lines joined to one, with words broken over two lines joined as well."""
    return BREAK.sub("", " ".join(lines)) + " "
