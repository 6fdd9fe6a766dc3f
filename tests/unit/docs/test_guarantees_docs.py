"""docs/guarantees.md names tests and modules that are there."""

from __future__ import annotations

import re

from tests.compose_file import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text()


def test_every_test_named_as_keeping_a_promise_exists():
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    tests = set(re.findall(r"def (test_\w+)", sources))
    assert set(re.findall(r"`(test_\w+)`", PAGE)) - tests == set()


def test_every_module_named_as_keeping_a_promise_exists():
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    places = [ROOT / "queuemgr", ROOT]
    assert [n for n in sorted(named) if not any((p / n).exists() for p in places)] == []


def test_every_promise_is_tested():
    promises = [line for line in PAGE.splitlines() if line.startswith("| ") and "promise" not in line]
    assert promises
    assert all(re.search(r"`test_\w+`", line.split("|")[3]) for line in promises)
