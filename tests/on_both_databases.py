"""Run every test on SQLite and every test that depends on the database on PostgreSQL, side by side.

`python -m tests.on_both_databases [pytest arguments]`; the exit code is the first that is not 0. Side
by side, since most of the acceptance tests wait for processes of their own; those marked
`any_database` run beside both, once, those that wait for processes apart from the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import IO

WITH_PROCESSES = ["tests/acceptance", "tests/browser"]
MEET_NO_DATABASE = ["tests/unit", "tests/integration/pipeline/steps", "tests/browser"]


def _all_but(folders: list[str]) -> list[str]:
    """Tests in these folders have other marks; not to look at them saves seconds."""
    return ["tests", *(f"--ignore={folder}" for folder in folders)]


ON_BOTH = [*_all_but(MEET_NO_DATABASE), "-m", "not slow_proof and not any_database"]
ONCE = ["-m", "not slow_proof and any_database"]

RUNS = {
    "sqlite": ("sqlite", ON_BOTH),
    "postgres": ("postgres", ON_BOTH),
    "any database": ("sqlite", [*_all_but(WITH_PROCESSES), *ONCE]),
    "any database, with processes": ("sqlite", [*WITH_PROCESSES, *ONCE]),
}
"""What each run is called, the database it is given, and how it chooses its tests."""

SHARED = {"SLUICE_TEST_PATIENCE": "3"}
"""What each run is told, since it shares the machine with the others."""

SHOWN = "sqlite"
"""The run whose progress is shown; the others are shown when they have ended."""


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        kept = {name: os.path.join(folder, name) for name in RUNS if name != SHOWN}
        beside = {name: _started(name, arguments, kept[name]) for name in kept}
        print(f"=== {SHOWN} (beside it, shown after: {', '.join(kept)}) ===", flush=True)
        codes = [_started(SHOWN, arguments).wait()]
        for name, run in beside.items():
            codes.append(run.wait())
            print(f"=== {name} ===", flush=True)
            with open(kept[name], errors="replace") as output:
                sys.stdout.write(output.read())
    return next(filter(None, codes), 0)


def _started(name: str, arguments: list[str], output: str = "") -> subprocess.Popen[bytes]:
    database, chosen = RUNS[name]
    written: IO[bytes] | None = open(output, "wb") if output else None  # noqa: SIM115 - the child's own
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *chosen, *arguments],
        env={**SHARED, **os.environ, "SLUICE_TEST_DATABASE": database},
        stdout=written,
        stderr=subprocess.STDOUT if output else None,
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
