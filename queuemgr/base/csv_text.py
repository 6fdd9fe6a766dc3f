"""Lines of CSV that no spreadsheet takes for more than text: the one place where CSV is written.

A cell of text that a spreadsheet could take for a formula gets an apostrophe before it. Spreadsheets skip
blanks and invisible characters, and read fullwidth and other forms of the signs as the signs themselves. All
text is quoted, since a spreadsheet may split lines at semicolons or tabs as well.
"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterable
from io import StringIO
from typing import Any

SIGNS = frozenset("=+-@\u2212")
"""What a formula starts with, after compatibility forms are replaced; the last is the minus sign."""

_BREAKS = ("\t", "\r", "\n")

_SHOWN_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Fillers that are letters or symbols to Unicode."""

_INVISIBLE = ("Z", "C", "M")
"""Classes of characters that take no ink of their own: separators, controls and formats, marks."""


def csv_line(cells: Iterable[Any]) -> str:
    """One line, with its end; numbers stay numbers, None is empty."""
    written = StringIO()
    csv.writer(written, quoting=csv.QUOTE_NONNUMERIC).writerow(map(_cell, cells))
    return written.getvalue()


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    return f"'{value}" if starts_a_formula(str(value)) else value


def starts_a_formula(text: str) -> bool:
    """Whether a spreadsheet could take this text for a formula."""
    if text.startswith(_BREAKS):
        return True
    first = next((one for one in text if not _is_blank(one)), "")
    return unicodedata.normalize("NFKC", first)[:1] in SIGNS


def _is_blank(one: str) -> bool:
    return one in _SHOWN_BLANK or unicodedata.category(one)[0] in _INVISIBLE
