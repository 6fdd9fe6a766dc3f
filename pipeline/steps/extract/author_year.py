"""Where the entries of an author-year list start: between the year of the one before and their own. Pure."""

# ruff: noqa: RUF001 - typographic apostrophes are what papers print

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

LONGEST_ENTRY = 25
"""Lines without another year after which an author-year list has ended: an appendix follows."""

YEAR = r"(?:1[5-9]|20)\d\d[a-z]?"

AUTHOR_YEAR = (
    re.compile(rf"(?<!\d)(?<!\d )\((?:{YEAR}(?:[,/–-]\s?[^()]{{1,30}})?|n\.\s?d\.|in press)\)\s?[.,:]"),
    re.compile(rf"(?<=[.,\]])\s{YEAR}\.\s"),  # ACL, Chicago, ICML: . 2004.
    re.compile(rf"(?<=[.\w])\s{YEAR},\s(?=[A-Z]|in\s)"),  # AAS: A. 2004, ApJ
    re.compile(rf"(?<!\d )\({YEAR}\)\s(?=\w)"),  # Springer: Name A (2004) Title
)
"""Where an entry has its year, by style, APA and JSS first; the most frequent style is the list's. A year in
brackets after a number is an issue: 366(1881)."""

ANY_YEAR = re.compile(rf"(?<![\d.:/–-])(?<!\d\(){YEAR}(?![\d/–-])|\bn\.\s?d\.")

UPPER = r"[^\W\d_a-z]"

NAME = rf"(?:(?:v[ao]n|de[nlr]?|di|da|du|la|le|ter|el|al)\s)*{UPPER}[\w'’\-]*"

AUTHOR_START = re.compile(
    rf"^(?!In\s)(?:{NAME}(?:\s{NAME})?,\s(?:{UPPER}\.|{UPPER}[^\W\dA-Z_])|"  # Abel, A. or Abel, Ann
    rf"{NAME}\s{UPPER}{{1,4}}[\s,.(:]|"  # Abel AB, or Abel A (2004)
    rf"(?:{UPPER}\.[\s-]?){{1,4}}(?!{UPPER}\b){NAME}(?:,|\sand\s|\s&\s|\.\s|\s\()|"  # A. B. Abel,
    rf"{NAME}(?:\s(?:[A-Z]\.|{NAME})){{1,4}}(?:,|\sand\s|\.\s))"  # Ann B. Abel and
)
"""How the first author's name begins an entry, by style."""

CERTAIN = re.compile(
    rf"{NAME}(?:\s{NAME})?,\s(?:{UPPER}\.|{UPPER}[^\W\dA-Z_])|{NAME}\s{UPPER}{{1,4}}[,.(:]|"
    rf"(?:{UPPER}\.[\s-]?){{1,4}}{NAME},"
)
"""The name of a person and nothing else: a journal looks like the others."""

NAME_ALONE = re.compile(rf"{NAME}(?:\s(?:[A-Z]\.|{NAME})){{1,4}}\.$|(?:{UPPER}\.[\s-]?){{1,4}}{NAME}\.$")
"""A name and nothing else on a line, of an author only if a year follows: a publisher looks the same."""

YEAR_FIRST = re.compile(rf"\(?{YEAR}")

FULL_STOP = re.compile(r"(?<!\b[^\W\d_a-z])\.$")
"""The end of a sentence, not of an initial."""

ENTRY_END = re.compile(rf"{FULL_STOP.pattern}|[)\]”\"/\d]$|://|\bdoi\b|\bDOI\b")
"""How an entry's last line ends: a full stop, a URL, a page number."""

ADDRESS_START = re.compile(r"https?:|www\.|://|\bdoi:|\b10\.\d{4,9}(?!\d)", re.IGNORECASE)

GOES_ON = re.compile(r"(?<=[^\W\d])-$|\b(?:and|of|the|for|in|&)$")
"""A line that its next one continues."""

INSIDE = re.compile(
    r"[(/]|(?:1[5-9]|20)\d\d[a-z]?[.,)]|(?!\S{2,40}\. \(|(?:v[ao]n|de[nlr]?|di|da|du|la|le|ter|el|al)\b)[a-z]"
)
"""How a line begins that starts no entry."""

WHOLE_END = re.compile(rf"{FULL_STOP.pattern}|[\d)]$")

FAMILY = re.compile(r"[^\W\d_]{2,}")

IN_ORDER = 0.8
"""Share of neighbours in the order of the alphabet from which a list is in it."""

SHORTEST_LIST = 4
"""Entries of a list without a heading."""

WITHIN = 6
"""Lines from an entry's start within which its year is, in a list without a heading."""


def author_year_starts(section: Sequence[str], years: Sequence[int]) -> list[int]:
    """The lines at which the entries of an author-year list start, by the lines of their years."""
    return with_missed(section, author_starts(section, years), years[-1]) if years else []


def year_lines(section: Sequence[str]) -> list[int]:
    """The line of each entry's year, in the most frequent author-year style, up to the list's end."""
    text = " ".join(section) + " "
    firsts = list(accumulate((len(line) + 1 for line in section), initial=0))
    found: list[int] = []
    for pattern in AUTHOR_YEAR:
        years = [bisect_right(firsts, match.start() + 1) - 1 for match in pattern.finditer(text)]
        found = max(found, years, key=len)
    ends = [i for i, (a, b) in enumerate(pairwise(found), 1) if b - a > LONGEST_ENTRY]
    return found[: ends[0]] if ends else found


def author_starts(section: Sequence[str], years: Sequence[int]) -> list[int]:
    """The line at which each entry starts: the most likely between the previous year and its own."""
    starts: list[int] = []
    for before, at in pairwise([-1, *years]):
        between = range(before + 1, at + 1)
        if len(between) == 1:
            starts.append(at)
        elif between:
            earlier = key_of(section[starts[-1]]) if starts else ""
            starts.append(max(between, key=lambda i: likelihood(section, i, at, earlier)))
    return starts


def likelihood(section: Sequence[str], i: int, year: int, earlier: str) -> tuple[int, int]:
    """How likely line i is the first of the entry whose year is on line `year`, after one of the name
    `earlier`. Of equal lines the first with an author's name wins; without such a line the last, which is
    nearest to the year."""
    line = section[i]
    if is_inside(line) or (i > 0 and GOES_ON.search(section[i - 1])):
        return 0, -i
    names = bool(AUTHOR_START.match(line)) or is_name_before_year(section, i)
    points = (
        2 * names
        + bool(CERTAIN.match(line))
        + 2 * is_after_end(section, i)
        + (year - i < 2)
        + (earlier <= key_of(line))
    )
    return 1 + points, -i if names else i


def is_name_before_year(section: Sequence[str], i: int) -> bool:
    following = section[i + 1] if i + 1 < len(section) else ""
    return bool(NAME_ALONE.match(section[i]) and YEAR_FIRST.match(following))


def is_after_end(section: Sequence[str], i: int) -> bool:
    """Whether the line before may end an entry."""
    return i == 0 or bool(ENTRY_END.search(section[i - 1])) or is_rest_of_address(section, i - 1)


def is_rest_of_address(section: Sequence[str], i: int) -> bool:
    """Whether the line is nothing but the end of an address that was broken."""
    return i > 0 and " " not in section[i] and ends_in_address(section[i - 1])


def ends_in_address(line: str) -> bool:
    """Whether the last word of a line is an address, or the beginning of one."""
    if "." not in line and ":" not in line:  # most lines of most texts
        return False
    return bool(ADDRESS_START.search(line.rpartition(" ")[2]))


def is_inside(line: str) -> bool:
    """Whether the line starts no entry: it is in lower case, or one word like a part of an address."""
    return bool(INSIDE.match(line)) or (" " not in line and any(sign in line for sign in "/_=."))


def with_missed(section: Sequence[str], starts: Sequence[int], last: int) -> list[int]:
    """The starts, and those of entries whose year is printed in another way than most: `1992. IRAS`."""
    if not are_in_order([section[i] for i in starts]):
        return list(starts)
    found = []
    for start, end in pairwise([*starts, last + 1]):
        found += [start, *(missed_between(section, start, end) if end > start + 1 else ())]
    return found


def missed_between(section: Sequence[str], start: int, end: int) -> Iterator[int]:
    """Lines after which both what was before and what follows is an entry with a year, in order."""
    first = start
    dated = [i for i in range(start, end) if ANY_YEAR.search(section[i])]
    for i in range(start + 1, end):
        if (
            AUTHOR_START.match(section[i])
            and is_whole_end(section, i - 1)
            and key_of(section[first]) <= key_of(section[i])
            and dated and dated[-1] >= i
            and any(first <= line < i for line in dated)
            and (end >= len(section) or key_of(section[i]) <= key_of(section[end]))
        ):  # fmt: skip
            first = i
            yield i


def is_whole_end(section: Sequence[str], i: int) -> bool:
    """Whether the line ends an entry for certain, as far as one can see."""
    return bool(WHOLE_END.search(section[i])) or ends_in_address(section[i]) or is_rest_of_address(section, i)


def are_in_order(lines: Sequence[str]) -> bool:
    """Whether most of them are in the order of the alphabet."""
    pairs = list(pairwise(map(key_of, lines)))
    return bool(pairs) and sum(a <= b for a, b in pairs) >= IN_ORDER * len(pairs)


def key_of(line: str) -> str:
    """The first name of a line, as it is sorted."""
    match = FAMILY.search(line)
    return match[0].casefold() if match else ""


def list_without_heading(lines: Sequence[str]) -> int | None:
    """Where the last run of entries in the order of the alphabet starts, a few lines from one to the next."""
    dated = [bool(ANY_YEAR.search(line)) for line in lines]
    near = [any(dated[i : i + WITHIN]) for i in range(len(lines))]
    run: list[int] = []
    found = None
    for i, line in enumerate(lines):
        if not (near[i] and AUTHOR_START.match(line) and (i == 0 or ENTRY_END.search(lines[i - 1]))):
            continue
        if run and i - run[-1] > LONGEST_ENTRY:
            run = []
        run.append(i)
        if len(run) == SHORTEST_LIST and are_in_order([lines[each] for each in run]):
            found = run[0]
    return found
