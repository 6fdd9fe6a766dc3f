"""Where the entries of a list start, by their authors' names in the order of the alphabet, wherever their
years are: MLA, Chicago's notes, DIN, MHRA. Pure."""

# ruff: noqa: RUF001 - typographic quotes and dashes are what papers print

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from unicodedata import normalize

from pipeline.steps.extract.author_year import (
    ANY_YEAR,
    AUTHOR_START,
    CERTAIN,
    GOES_ON,
    LONGEST_ENTRY,
    UPPER,
    is_whole_end,
)
from pipeline.steps.extract.reference_names import CORPORATE, LONGEST_NAME, PARTICLES

SAME_AUTHOR = re.compile(r"[—–_-]{2,}[.,:]")
"""Instead of the name of the entry before."""

TITLE_START = re.compile(r"[“\"]\S")
"""An entry without an author begins with its title, in quotes."""

CORPORATION = re.compile(rf"{UPPER}[^.,:;()“]{{4,90}}\.\s")
"""A name and a full stop, if a word of it says that it is no person's."""

ENDS_IN_YEAR = re.compile(r"\d{4}[a-z]?[).]{1,2}$")

ORDERED = 0.7
"""The least share of what may be starts that is in the order of the alphabet."""


def named_starts(section: Sequence[str]) -> list[int]:
    """The lines at which entries start, most of what may be ones being in order; else none."""
    found = candidates(section)
    ordered = {found[i] for i in in_order(keys_of(section, found))}
    kept = [i for i in found if i in ordered or CERTAIN.match(section[i])]
    if not kept or len(ordered) < ORDERED * len(found) or kept[0] != 0:
        return []
    ends = [i for i, (a, b) in enumerate(pairwise(kept), 1) if b - a > LONGEST_ENTRY]
    return kept[: ends[0]] if ends else kept


def candidates(section: Sequence[str]) -> list[int]:
    """Lines that begin as entries do, behind the end of something with a year."""
    found: list[int] = []
    dated = False
    for i, line in enumerate(section):
        if (i == 0 or (dated and is_whole_end(section, i - 1) and not GOES_ON.search(section[i - 1]))) and (
            begins_entry(section, i)
        ):
            found.append(i)
            dated = False
        dated = dated or bool(ANY_YEAR.search(line))
    return found if dated else found[:-1]


def begins_entry(section: Sequence[str], i: int) -> bool:
    line = section[i]
    if AUTHOR_START.match(line) or SAME_AUTHOR.match(line):
        return True
    if (name := CORPORATION.match(line)) and CORPORATE.search(name[0]):
        return True
    return bool(TITLE_START.match(line)) and (i == 0 or not ENDS_IN_YEAR.search(section[i - 1]))


def keys_of(section: Sequence[str], found: Sequence[int]) -> list[str]:
    keys: list[str] = []
    for i in found:
        keys.append(keys[-1] if keys and SAME_AUTHOR.match(section[i]) else sorted_by(section[i]))
    return keys


def sorted_by(line: str) -> str:
    """The family name as most lists sort it: without particles, apostrophes and accents."""
    words = line[:LONGEST_NAME].partition(",")[0].split()
    family = "".join([word for word in words if word not in PARTICLES] or words)
    plain = normalize("NFKD", family.casefold().translate(STROKES))
    return "".join(filter(str.isalpha, plain))


STROKES = str.maketrans("øłđæœß", "oldaos")
"""Letters that no decomposition takes apart, as they are sorted."""


def in_order(keys: Sequence[str]) -> list[int]:
    """The places of as many keys as can be in order, of which none is before the one before it."""
    lasts: list[str] = []  # the smallest key that ends a run of each length
    places: list[int] = []
    before: list[int] = []
    for i, key in enumerate(keys):
        at = bisect_right(lasts, key)
        lasts[at : at + 1], places[at : at + 1] = [key], [i]
        before.append(places[at - 1] if at else -1)
    run = []
    i = places[-1] if places else -1
    while i >= 0:
        run.append(i)
        i = before[i]
    return run[::-1]
