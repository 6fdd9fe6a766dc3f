"""The usual way to count references, to compare ours with: one heading, one pattern, one limit. Pure.

What comes after the first line that says References is cut wherever a line starts with a number,
bracketed or not; pieces of more than 20 characters count, up to 40 of them.
"""

from __future__ import annotations

import re

HEADING = re.compile(r"^references[^\S\n]*$", re.IGNORECASE | re.MULTILINE)
NUMBER = re.compile(r"\n\s*\[?\d+\]?\s*")
LEAST_CHARACTERS = 20
MOST_ENTRIES = 40


def counted_by_pattern(text: str) -> int:
    """How many entries the pattern finds; 0 also where there is no heading."""
    heading = HEADING.search(text)
    if heading is None:
        return 0
    pieces = NUMBER.split(text[heading.end() :])
    return min(MOST_ENTRIES, sum(len(piece.strip()) > LEAST_CHARACTERS for piece in pieces))
