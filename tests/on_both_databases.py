"""Run every test on SQLite and every test that meets a database on PostgreSQL, side by side.

`python -m tests.on_both_databases [pytest arguments]`; the exit code is the first that is not 0. Side
by side, since most of the acceptance tests wait for processes of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import IO

RUNS = {
    "sqlite": ["tests"],
    "postgres": [
        "tests/integration",
        "tests/model",
        "tests/acceptance",
        "--ignore=tests/integration/steps",
    ],
}


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryFile() as kept:
        later = _start("postgres", arguments, kept)
        print("=== sqlite (postgres runs beside it and is shown after) ===", flush=True)
        first = _start("sqlite", arguments, None).wait()
        second = later.wait()
        print("=== postgres ===", flush=True)
        kept.seek(0)
        sys.stdout.write(kept.read().decode(errors="replace"))
    return first or second


def _start(
    database: str, arguments: list[str], output: IO[bytes] | None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *RUNS[database], *arguments],
        env={**os.environ, "SLUICE_TEST_DATABASE": database},
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
