"""No cell of any CSV is a formula to a spreadsheet, however its sign is written or hidden."""

from __future__ import annotations

import csv
import re
import sys
import unicodedata
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from queuemgr.base.csv_text import csv_line

ROOT = Path(__file__).parents[3]


@cache
def signs() -> list[str]:
    """Every character that some program reads as one of the four signs."""
    every = map(chr, range(sys.maxunicode + 1))
    return [sign for sign in every if unicodedata.normalize("NFKC", sign)[:1] in {"=", "+", "-", "@"}]


BLANKS = [
    *map(chr, range(0x21)), *map(chr, range(0x2000, 0x2010)), *map(chr, range(0x2028, 0x2030)),
    "\x7f", "\x85", "\xa0", "\xad", "\u034f", "\u061c", "\u115f", "\u1160", "\u1680", "\u17b4", "\u180e",
    "\u205f", "\u2060", "\u2064", "\u2066", "\u2069", "\u2800", "\u3000", "\u3164", "\ufe0f", "\ufeff",
    "\uffa0", "\ufff9", "\ue000", "\U000e0001", "\U000e0020", "\ud800",
]  # fmt: skip
"""What takes no ink: blanks, controls, zero-width characters, marks, fillers."""


def cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter))


def test_the_signs_are_more_than_those_of_the_keyboard() -> None:
    assert {"=", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\ufe63", "\u207a"} <= set(signs())
    assert len(signs()) > 15


@pytest.mark.parametrize("blanks", [("",), BLANKS, [a + b for a, b in product(BLANKS[::5], BLANKS[::7])]])
def test_no_cell_begins_with_a_formula_however_it_is_written(blanks: list[str]) -> None:
    for blank, sign in product(blanks, signs()):
        attack = f"{blank}{sign}1+1"
        assert csv_line([attack]) == f'"\'{attack}"\r\n', ascii(attack)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_no_text_makes_a_cell_of_its_own_whatever_the_spreadsheet_splits_at(delimiter: str) -> None:
    texts = [f"a{inner}=1+1" for inner in (",", ";", "\t", '"', '";', '""";', "\r\n", "\n", "',")]
    for text in texts:
        assert cells(csv_line([text]), delimiter) == [text]


def test_ordinary_text_and_numbers_stay_as_they_are() -> None:
    line = csv_line(["ann", "a=b", "1-2", "", None, -5, 2.5, "{}", "mañana"])
    assert line == '"ann","a=b","1-2","","",-5,2.5,"{}","mañana"\r\n'
    assert cells(line, ",") == ["ann", "a=b", "1-2", "", "", "-5", "2.5", "{}", "mañana"]


def test_csv_is_written_in_one_place() -> None:
    files = [path for app in ("queuemgr", "pipeline", "project") for path in (ROOT / app).rglob("*.py")]
    imports = re.compile(r"^\s*(import|from) csv\b", re.MULTILINE)
    writers = [str(path.relative_to(ROOT)) for path in files if imports.search(path.read_text())]
    assert writers == ["queuemgr/base/csv_text.py"]
