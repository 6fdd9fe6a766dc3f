"""Run every test on SQLite, then every test that meets a database on PostgreSQL; one exit code.

`python -m tests.on_both_databases [pytest arguments]`
"""

from __future__ import annotations

import os
import subprocess
import sys

RUNS = (
    ("sqlite", ["tests"]),
    ("postgres", ["tests/integration", "tests/acceptance"]),
)


def main(arguments: list[str]) -> int:
    worst = 0
    for database, places in RUNS:
        print(f"=== {database} ===", flush=True)
        command = [sys.executable, "-m", "pytest", *places, *arguments]
        done = subprocess.run(command, env={**os.environ, "SLUICE_TEST_DATABASE": database})
        worst = worst or done.returncode
    return worst


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
