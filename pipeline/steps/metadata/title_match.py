"""Whether a title is printed on a page, and where it ends. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from pipeline.steps.metadata.letters_only import squeezed

MAX_LINES = 60
"""Lines within which a title ends."""

MAX_LINE, MAX_TITLE = 500, 600
"""Characters that are compared of a line and of a title."""

WORD = re.compile(r"\w{2,}")

LEAST_WORDS = 4
"""Words that a title must have for a share of them to say anything."""

LEAST_LETTERS = 20
"""Letters of a title in a script without spaces, in one piece, that are surely not there by chance."""

NO_TITLES = re.compile(
    r"(?:microsoft (?:word|powerpoint|excel) ?[-–].{0,300}|untitled.{0,20}|no title|title|document\d{0,4}|"  # noqa: RUF001 - the dash of Word
    r".{0,200}\.(?:dvi|docx?|pdf|tex|ps|eps|indd|qxd|rtf|odt|fm|txt|html?|pptx?|xlsx?|jpe?g|png|tiff?)|"
    r"adobe \w+ pdf|pii: ?\S{0,60}|[\W\d_]{0,200}|slide \d{1,4}|scan.{0,30}|"
    r"[A-Za-z]{2,12}[_-]?\d{3,}\S{0,60})",
    re.IGNORECASE | re.DOTALL,
)  # fmt: skip
"""Titles that programs write where a person wrote none."""


def share_printed(title: str, lines: Sequence[str]) -> float:
    """The share of a title that is on a page: 1 if all of it is there in one piece, which for a few words
    must be a line; 0 without words."""
    title, lines = title[:MAX_TITLE], [line[:MAX_LINE] for line in lines[:MAX_LINES]]
    pieces = list(map(squeezed, lines))
    words, whole = set(map(squeezed, WORD.findall(title))), squeezed(title)
    if len(words) < LEAST_WORDS and len(whole) < LEAST_LETTERS:
        return float(bool(whole) and whole in {*pieces, *map("".join, pairwise(pieces))})
    if whole in "".join(pieces):
        return 1.0
    if not words:
        return 0.0
    on_page = set(map(squeezed, WORD.findall(" ".join(lines))))
    return min(0.99, len(words & on_page) / len(words))


def end_of_title(title: str, lines: Sequence[str]) -> int | None:
    """The index of the line after a title; None if it is not there."""
    wanted = squeezed(title[:MAX_TITLE])
    if not wanted:
        return None
    page = ""
    for i, line in enumerate(lines[:MAX_LINES]):
        page += squeezed(line[:MAX_LINE])
        if wanted in page:
            return i + 1
    return None
