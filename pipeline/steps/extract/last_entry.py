"""Where the last entry of a list ends, when what follows has no heading: an annex, captions, notes. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from pipeline.steps.extract.author_year import ANY_YEAR, FULL_STOP, ends_in_address, is_rest_of_address
from pipeline.steps.extract.reference_fields import ABBREVIATIONS, ADDRESS, fields_of

MOST_LINES = 25
"""Lines of the longest entry."""

FULL, SHORT = 0.85, 0.6
"""Shares of the list's width: a line from the first on is full, one up to the second is the end of a
paragraph."""

WORDS = 8
"""Words of an entry that cannot be divided, from which it may be whole."""

FOLLOWING = re.compile(
    r"(?:Fig(?:ure|\.)|Table|Tab\.|Box|Scheme|Plate|Listing|Algorithm|Abb(?:ildung|\.))\s*[A-Z]?\d+\b"
    r"|(?:Received|Accepted|Submitted|Revised|Published|Edited)\b.{0,40}\d{4}"
    r"|Submit\s|©|\(c\)\s|Copyright\b|Correspond|Publisher|How to cite|Cite (?:this|as)|Licen[cs]ed?\b"
    r"|This (?:article|work|paper|is an open)|Open Access|E-?mail|Supplement|Appendi|Annex"
    r"|(?:End)?[Nn]otes?\b|[*†‡§¶]"
)
"""What follows a list and belongs to no entry."""

CONTINUED = re.compile(
    r"[a-zà-ÿ(\[\"“/&]|\d|https?:|www\.|doi\b|DOI\b|arXiv|Retrieved|Available|Accessed|IS[BS]N|PMC?ID|URL|Vol\b|No\b"
)
"""How the next line of an entry may begin after a full stop."""

FOOTNOTE = re.compile(r"\d{1,2}\s?[^\W\d_a-z][a-z]+\s[a-z]+\s")
"""A note: its number, and a sentence."""

TERMINAL = re.compile(rf"{FULL_STOP.pattern}|\d[)\]]?$|[\])”\"]$")


def end_of_last(section: Sequence[str], first: int, joined: Callable[[Iterable[str]], str]) -> int:
    """The line after the last entry, which starts at line `first`."""
    stop = min(len(section), first + MOST_LINES)
    width = width_of(section[:first] or section[first:stop])
    for i in range(first + 1, stop):
        before, line = section[i - 1], section[i]
        text = joined(section[first:i]).strip()
        if FOLLOWING.match(line) and ANY_YEAR.search(text):
            return i
        if not (TERMINAL.search(before) or ends_in_address(before)) or ends_in_abbreviation(before):
            continue
        if (CONTINUED.match(line) and not FOOTNOTE.match(line)) or is_rest_of_address(section, i):
            continue
        is_tail = len(before) >= FULL * width and len(line) <= SHORT * width and line.endswith(".")
        if is_whole(text) and not (is_tail and not has_address(text)):
            return i
    return stop


def width_of(lines: Sequence[str]) -> int:
    """The length that a tenth of the lines reach."""
    return sorted(map(len, lines))[-1 - len(lines) // 10]


def ends_in_abbreviation(line: str) -> bool:
    return line.endswith(".") and line[:-1].rpartition(" ")[2].lower() in ABBREVIATIONS


def is_whole(text: str) -> bool:
    """Whether it may be all of an entry."""
    if not ANY_YEAR.search(text):
        return False
    found = fields_of(text)
    if found.title or found.venue:
        return bool(found.title and (found.venue or has_address(text))) or bool(
            found.venue and not found.title
        )
    return not found.authors and len(text.split()) >= WORDS


def has_address(text: str) -> bool:
    return bool(ADDRESS.search(text))
