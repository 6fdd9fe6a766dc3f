"""docs/quick_starts.md counts what the scripts in bench/quick_starts do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.compose_file import ROOT

SCRIPTS = {
    "Sluicegate": "sluicegate", "django-ox": "django_ox", "Procrastinate": "procrastinate",
    "django-tasks-db": "django_tasks_db", "Dramatiq": "dramatiq", "dbos": "dbos",
}  # fmt: skip
PAGE = (ROOT / "docs" / "quick_starts.md").read_text()
ROWS = {
    match[1]: [int(match[2]), int(match[3])]
    for match in re.finditer(r"^\| ([\w-]+)[^|]*\| (\d+) \| (\d+) \|", PAGE, re.MULTILINE)
}


def script(name: str) -> Path:
    return ROOT / "bench" / "quick_starts" / f"{SCRIPTS[name]}.sh"


def steps(name: str) -> int:
    return len(re.findall(r"^\w+_step\b", script(name).read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_row_counts_the_steps_of_its_script(name: str) -> None:
    assert ROWS[name][0] == steps(name)


def test_ours_has_the_fewest_steps_and_lines() -> None:
    others = [row for name, row in ROWS.items() if name != "Sluicegate"]
    assert len(others) == len(SCRIPTS) - 1
    assert ROWS["Sluicegate"] < [min(row[0] for row in others), 0]
    assert ROWS["Sluicegate"][1] < min(row[1] for row in others)
