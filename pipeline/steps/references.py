"""Find a paper's list of references and count its entries, by rules. Pure: text in, count out.

The rules, in order: drop lines that come back on many pages (a footer that cites the paper itself
would count once a page); find the heading whose next lines look like entries; then count by the
strictest style that fits: a chain of numbers, labels, and last the years of author-year entries.
Every pattern here is our own; the order of the rules follows a survey of 35 papers counted by eye.
"""

# ruff: noqa: RUF001 - full-width and typographic signs are what papers print

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

HEAD_SHARE = 0.4
HEAD_PAGES = 3
"""A line on at least this share of the pages, and at least so many of them, is a running head."""

LOOK_AHEAD = 60
"""Lines after a heading in which entries must show."""

MAX_STARTS = 20
"""Lines starting with `[1]` that are tried as the start of a list, from the last."""

MAX_GAP = 3
"""Numbers a chain may miss in a row: a marker lost in a bad line break."""

YEAR = r"(?:1[5-9]|20)\d\d[a-z]?"

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

PAGE_MARK = re.compile(r"^\[PAGE \d+\]$", re.MULTILINE)

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

SPACELESS = "\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef"
"""Scripts written without spaces: Chinese and Japanese with their punctuation."""

BREAK = re.compile(rf"(?<=[^\W\d])- (?=[a-z])|(?<=[{SPACELESS}]) (?=[{SPACELESS}])")
"""What joining lines leaves behind: a hyphen in a word, a space in a script that has none."""

ENTRY_HINT = re.compile(rf"\b{YEAR}\b|^[\[(]?\d{{1,3}}[\]).]")


@dataclass(frozen=True)
class References:
    """`count` is None when no list was found, which is not the same as 0.

    `style` is `bracketed`, `numbered`, `parenthesised`, `plain`, `labelled`, `author-year`, or ""
    when the entries could not be told apart; `section` is the list's own text, "" without one.
    """

    count: int | None
    style: str
    section: str


def find_references(text: str) -> References:
    """Count the references of a paper given as text with `[PAGE n]` lines between its pages."""
    lines = without_running_heads(pages_of(text))
    section = section_of(lines)
    if section:
        count, style = counted(section)
    else:
        section, count, style = without_heading(lines)
    return References(count, style, "\n".join(section))


def before_references(text: str) -> str:
    """The text up to its list of references; all of it when none was found. Marks are dropped."""
    lines = without_running_heads(pages_of(text))
    start = heading_index(lines)
    return "\n".join(lines if start is None else lines[:start])


def pages_of(text: str) -> list[list[str]]:
    """Lines per page, stripped, without empty ones and bare page numbers."""
    pages = [page for page in PAGE_MARK.split(text) if page.strip()]
    return [[line for line in map(tidy, page.split("\n")) if line] for page in pages]


def tidy(line: str) -> str:
    line = " ".join(line.split())
    if SPACED.match(line):
        line = line.replace(" ", "")
    return "" if line.isdecimal() else line


def without_running_heads(pages: Sequence[Sequence[str]]) -> list[str]:
    """All lines but those that, digits aside, stand once or twice on many pages."""
    shapes = [Counter(map(shape_of, page)) for page in pages]
    often = Counter(shape for page in shapes for shape in page)
    total = sum(shapes, Counter())
    least = max(HEAD_PAGES, HEAD_SHARE * len(pages))
    heads = {
        shape
        for shape, on in often.items()
        if on >= least and total[shape] <= 2 * on and has_words(shape)
    }
    return [
        line
        for page in pages
        for line in page
        if shape_of(line) not in heads and not is_running_heading(line, page)
    ]


def shape_of(line: str) -> str:
    return re.sub(r"\d+", "#", line)


def has_words(shape: str) -> bool:
    """Whether a line says something: `[#]` comes back on every page of references too."""
    return sum(map(str.isalpha, shape)) >= 4


def is_running_heading(line: str, page: Sequence[str]) -> bool:
    """`References 11` or `12 References` at the edge of a page is its head, not a heading."""
    return bool(RUNNING_HEADING.match(line)) and line in (*page[:2], *page[-2:])


def section_of(lines: Sequence[str]) -> list[str]:
    """The lines between the heading of the list and whatever follows the list."""
    start = heading_index(lines)
    if start is None:
        return []
    return list(takewhile(lambda line: not SECTION_END.match(line), lines[start + 1 :]))


def heading_index(lines: Sequence[str]) -> int | None:
    """The last heading whose next lines look like entries: the first is often a sentence's end."""
    headings = [i for i, line in enumerate(lines) if len(line) < 60 and HEADING.match(line)]
    return next(
        (i for i in reversed(headings) if looks_like_entries(lines[i + 1 : i + 1 + LOOK_AHEAD])),
        None,
    )


def looks_like_entries(near: Sequence[str]) -> bool:
    hints = sum(bool(ENTRY_HINT.search(line)) for line in near)
    return hints >= max(1, min(5, len(near) / 5))


def counted(section: Sequence[str]) -> tuple[int | None, str]:
    """Number of entries and their style; (None, "") when nothing tells them apart."""
    by_year = years_counted(section)
    for style, pattern in NUMBERED.items():
        last, members = chain(section, pattern)
        if is_list(last, members) and last >= by_year / 2:
            return last, style
    labels = sum(bool(LABEL.match(line)) for line in section)
    if labels >= 2 and labels >= by_year / 2:
        return labels, "labelled"
    return (by_year, "author-year") if by_year else (None, "")


def chain(lines: Iterable[str], pattern: re.Pattern[str]) -> tuple[int, int]:
    """Follow 1, 2, 3 … through the lines: the last number reached, and how many were met."""
    last = members = 0
    for number in markers(lines, pattern):
        if last < number <= last + MAX_GAP:
            last, members = number, members + 1
    return last, members


def markers(lines: Iterable[str], pattern: re.Pattern[str]) -> Iterator[int]:
    return (int(match[1]) for match in map(pattern.match, lines) if match)


def is_list(last: int, members: int) -> bool:
    return members >= 1 and members >= last / 2


def years_counted(section: Sequence[str]) -> int:
    """Entries by the year pattern of the prevailing author-year style."""
    text = unbroken(section)
    return max(len(pattern.findall(text)) for pattern in AUTHOR_YEAR)


def unbroken(lines: Iterable[str]) -> str:
    """The lines as one, words that were broken over two made whole."""
    return BREAK.sub("", " ".join(lines)) + " "


def without_heading(lines: Sequence[str]) -> tuple[list[str], int | None, str]:
    """Physics papers often set their list without a heading: the last chain of [n] from 1 on."""
    pattern = NUMBERED["bracketed"]
    starts = [i for i, line in enumerate(lines) if (m := pattern.match(line)) and m[1] == "1"]
    for start in reversed(starts[-MAX_STARTS:]):
        section = list(takewhile(lambda line: not SECTION_END.match(line), lines[start:]))
        last, members = chain(section, pattern)
        if last >= HEAD_PAGES and is_list(last, members):
            return section, last, "bracketed"
    return [], None, ""
