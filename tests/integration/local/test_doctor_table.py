"""Each row of docs/doctor.md: the misconfiguration is made; `doctor` says it, with remedy and exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from queuemgr.scheduling import limit_rows
from tests.integration.cli.commands import run
from tests.integration.local.misconfiguration import Scene
from tests.integration.local.misconfigurations import MISCONFIGURATIONS, made
from tests.private_servers import POSTGRES
from tests.shell import Shell

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.only_on("postgres", why="its server is misconfigured"),
]
PAGE = Path(__file__).parents[3] / "docs" / "doctor.md"


class Row(NamedTuple):
    misconfiguration: str
    says: str
    remedy: str
    code: int


def rows() -> list[Row]:
    cells = (
        re.split(r"\s*(?<!\\)\|\s*", line)[1:-1] for line in PAGE.read_text().splitlines() if line[:1] == "|"
    )
    return [Row(what, says, remedy, int(code)) for what, says, remedy, code in cells if code.isdigit()]


def test_every_row_of_the_table_can_be_made_and_every_misconfiguration_has_a_row() -> None:
    assert [row.misconfiguration for row in rows()] == list(MISCONFIGURATIONS)


IN_EVERY_RUN = 3
"""One row of so many; `make proof` makes all of them."""


def params() -> list[Any]:
    return [
        pytest.param(
            row, id=row.misconfiguration.replace(" ", "-"),
            marks=() if number % IN_EVERY_RUN == 0 else pytest.mark.slow_proof,
        )
        for number, row in enumerate(rows())
    ]  # fmt: skip


@pytest.mark.parametrize("row", params())
def test_doctor_finds_it_and_names_the_remedy(
    row: Row, tmp_path: Path, shell: Shell, monkeypatch: Any, request: Any, sent: list[Any]
) -> None:
    limit_rows.sync()
    scene = Scene(tmp_path, monkeypatch, request.getfixturevalue)
    with made(row.misconfiguration, scene):
        out, code = elsewhere(shell, scene) if scene.environment else here()
    assert code == row.code, out
    assert any(fits(row, line) for line in out.splitlines()), out
    assert POSTGRES.password not in out
    assert "secret" not in out.lower().replace("secret-key", "") and "Traceback" not in out


def here() -> tuple[str, int]:
    done = run("doctor", "--json")
    return done.out, done.code


def elsewhere(shell: Shell, scene: Scene) -> tuple[str, int]:
    done = shell(scene.directory, "doctor", "--json", **scene.environment)
    return done.stdout + done.stderr, done.returncode


def fits(row: Row, line: str) -> bool:
    """Whether a line of `doctor`, or of settings that cannot be read, says what the row says."""
    found = json.loads(line) if line.startswith("{") else {"what": line, "remedy": line}
    return matches(row.says, found["what"], whole=line.startswith("{")) and matches(
        row.remedy, found["remedy"], whole=line.startswith("{")
    )


def matches(pattern: str, text: str, *, whole: bool) -> bool:
    expression = ".*".join(map(re.escape, pattern.split("…")))
    return bool((re.fullmatch if whole else re.search)(expression, text))
