"""The DOI and the arXiv id in an entry of a reference list, also across line breaks. Pure."""

# ruff: noqa: RUF001 - typographic dashes and quotes are what papers print

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.steps.closing_brackets import without_closing

YEAR_ALONE = re.compile(r"\(?(?:1[5-9]|20)\d\d[a-z]?\)?[.,;]?")
"""The year that ends an entry, on a line of its own."""

ENDED = (",", "'", '"', "’", "”", "»")
"""Signs after which a DOI is over."""

LONGEST = 300
"""Characters of the longest DOI; what follows is text that ran into it."""

DOI_START = re.compile(r"(?<![\d.])10\.\d{4,9}/")
"""The start of every DOI: the directory, and a registrant of four digits or more."""

CUT_START = re.compile(r"(?:doi\.org/|\bdoi ?[:.]? ?)(?P<start>1(?:0(?:\.\d{0,9})?)?)$", re.IGNORECASE)
"""A DOI whose line ends within its directory or its registrant."""

END_OF_START = re.compile(r"0?\.?\d{0,9}/\S+")

MUST_GO_ON = tuple("/_-(<:")
"""Characters that no DOI ends with: after them it goes on, on the next line."""

MAY_GO_ON = (".", ")", ";")
"""Characters after which a DOI may be broken, or its sentence ends."""

REST_OF_DOI = re.compile(r"[\w.()/:;<>\[\]\-–]+")

OTHER_START = re.compile(r"(?:https?:|www\.|arxiv|doi\b|pmid|pmcid|isbn|issn|in$)", re.IGNORECASE)
"""What may follow a DOI, and is none of it."""

SENTENCE_SIGNS = ".,;:'\"’”»<>"

FULL_LINE = 0.8
"""Share of the longest line's length from which a line is full, so that what ends it may be broken."""

ARXIV = re.compile(
    r"(?:arxiv\s*[:.]\s*|arxiv\.org/(?:abs|pdf)/|\babs/)"
    r"(\d{4}\.\d{4,5}(?:v\d+)?|[a-z]{2,}(?:-[a-z]+)*(?:\.[a-z]{2})?/\d{7}(?:v\d+)?)",
    re.IGNORECASE,
)
"""New ids (2101.00001) and old ones (hep-ex/0509008) after any of their usual prefixes."""


def doi_of(lines: Sequence[str], of_entry: bool = False) -> str:
    """The first DOI in these lines, or "" if there is none, or the end of it is missing. `of_entry`: they are
    an entry's, so that a number on a line of its own is no page's."""
    full = FULL_LINE * max(map(len, lines), default=0)
    for i, line in enumerate(lines):
        if match := DOI_START.search(line):
            return whole(line[match.start() :], lines[i + 1 :], len(line) >= full, of_entry)
        if i + 1 < len(lines) and (cut := CUT_START.search(line)):
            following = lines[i + 1]
            joined = cut["start"] + following
            if END_OF_START.match(following) and DOI_START.match(joined):
                return whole(joined, lines[i + 2 :], len(following) >= full, of_entry)
    return ""


def is_broken_doi(line: str) -> bool:
    """Whether the line ends within a DOI, as far as one can see."""
    if CUT_START.search(line):
        return True
    last = line.rpartition(" ")[2]
    match = DOI_START.search(last)
    return match is not None and may_go_on(last[match.start() :])


def ends_in_doi(line: str) -> bool:
    """Whether the line ends with a DOI, which may go on, if lines break within words."""
    return DOI_START.search(line.rpartition(" ")[2]) is not None


def whole(beginning: str, following: Sequence[str], is_full: bool, of_entry: bool = False) -> str:
    """The DOI that a line ends or contains, with its rest on the lines after it; "" if that is missing."""
    found, _, more = beginning.partition(" ")
    cut = not more
    for line in following if cut else ():
        first, _, more = line.partition(" ")
        if len(found) > LONGEST or not goes_on(found, first, not more, is_full, of_entry):
            break
        found += first
        if more:
            cut = False
            break
    return "" if cut and is_incomplete(found) else complete(trimmed(found))


def goes_on(found: str, first: str, alone: bool, is_full: bool, of_entry: bool = False) -> bool:
    """Whether the first word of the next line is more of the DOI."""
    if not REST_OF_DOI.fullmatch(first) or OTHER_START.match(first):
        return False
    if found.endswith(MUST_GO_ON):
        return True
    digits = any(map(str.isdecimal, first))
    if found.endswith("."):
        return digits or first[0].islower() or not has_digit(suffix_of(found))
    if found.endswith(MAY_GO_ON):
        return digits and may_go_on(found)
    if not (alone and is_full and digits) or found.endswith(ENDED) or YEAR_ALONE.fullmatch(first):
        return False
    return of_entry or not first.rstrip(".").isdecimal()


def may_go_on(doi: str) -> bool:
    """Whether it may be broken where it ends; a closing bracket that is not its own ends it."""
    if doi.endswith(")"):
        return doi.count("(") >= doi.count(")")
    return doi.endswith((*MUST_GO_ON, *MAY_GO_ON))


def is_incomplete(doi: str) -> bool:
    """Whether the end of the DOI is missing: its line ended in a sign that joins, or before any number."""
    if doi.endswith(MUST_GO_ON) or doi.count("(") > doi.count(")"):
        return True
    return doi.endswith(".") and not has_digit(suffix_of(doi))


def suffix_of(doi: str) -> str:
    return doi.partition("/")[2]


def has_digit(text: str) -> bool:
    return any(map(str.isdecimal, text))


def complete(doi: str) -> str:
    """The DOI, or "" if nothing is left of it after its registrant."""
    return doi if suffix_of(doi).strip("/") and not doi.endswith("/") else ""


def trimmed(doi: str) -> str:
    """Without the punctuation of the surrounding sentence, and without unmatched closing brackets."""
    return without_closing(doi[:LONGEST], SENTENCE_SIGNS, {")": "(", "]": "[", "}": "{"})


def arxiv_id_of(text: str) -> str:
    """The first arXiv id in the text of an entry, or ""."""
    match = ARXIV.search(text)
    return match[1] if match else ""
