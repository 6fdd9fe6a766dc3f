"""A common way to count references, as a baseline: one heading, one pattern, one limit. Pure.

The text after the first line "References" is split wherever a line starts with a number, bracketed or not;
pieces of more than 20 characters count, up to 40 of them.
"""

from __future__ import annotations

import re

HEADING = re.compile(r"^references[^\S\n]*$", re.IGNORECASE | re.MULTILINE)
NUMBER = re.compile(r"\n\s*\[?\d+\]?\s*")
LEAST_CHARACTERS = 20
MOST_ENTRIES = 40


def counted_by_pattern(text: str) -> int:
    """How many entries the pattern finds; 0 also without a heading."""
    heading = HEADING.search(text)
    if heading is None:
        return 0
    pieces = NUMBER.split(text[heading.end() :])
    return min(MOST_ENTRIES, sum(len(piece.strip()) > LEAST_CHARACTERS for piece in pieces))
