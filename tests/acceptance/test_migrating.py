"""An upgrade beside the work: rows survive, writers go on, a killed migration is run again."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet
from tests.acceptance.fork_server import REPOSITORY

BEFORE = "0004"
"""The last migration of the release before."""

LONGEST_STALL = 5.0
"""Seconds a writer may be kept waiting (the scenario's own figure)."""


def migrate(fleet: Fleet, *arguments: str, program: str = "manage.py") -> str:
    done = subprocess.run(
        [sys.executable, program, "migrate", "-v", "0", *arguments], env=fleet.environment,
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stderr if done.returncode else ""


def rows_before(fleet: Fleet, count: int) -> None:
    """So many ended executions, as the release before stored them."""
    columns = (
        "flow, key, phase, step, priority, state, resumed, run_after, wait_reason, payload, context, "
        "error_kind, error_message, created_at, attempts_counted_since, finished_at"
    )
    now = "now()" if "DATABASE_URL" in fleet.database.environment else "'2026-01-01 00:00:00'"
    series = (
        f"SELECT generate_series(1, {count})"
        if now == "now()"
        else f"SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count}"
    )
    fleet.database.run(
        f"WITH RECURSIVE n(n) AS ({series}) INSERT INTO queuemgr_execution ({columns}) "
        "SELECT 'probe', 'old-' || n, 'prep', 'run', 1, 'done', false, "
        f"{now}, '', '{{}}', '{{}}', '', '', {now}, {now}, {now} FROM n"
    )


@contextmanager
def writing(fleet: Fleet) -> Iterator[list[float]]:
    """Twenty writes a second of rows already there; the seconds each took."""
    stalls: list[float] = []
    over = threading.Event()
    database: Any = fleet.database

    def write() -> None:
        import psycopg

        url = f"host=127.0.0.1 port={database._server.port} user=sluice dbname={database.name}"
        with psycopg.connect(url, autocommit=True) as link:
            while not over.wait(0.05):
                began = time.perf_counter()
                link.execute("UPDATE queuemgr_execution SET wait_reason = 'x' WHERE key = 'old-1'")
                stalls.append(time.perf_counter() - began)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield stalls
    finally:
        over.set()
        writer.join()


@pytest.mark.slow_proof
def test_a_migration_killed_half_way_is_run_again_and_no_row_is_lost(make_fleet: MakeFleet) -> None:
    """P4-11: every statement of the last migrations in turn is where it breaks off."""
    fleet = make_fleet()
    assert not migrate(fleet, "queuemgr", BEFORE)
    rows_before(fleet, 200)
    broken = 0
    while said := migrate(fleet, program=str(_breaking_off(fleet.directory, broken + 1))):
        assert "broken off" in said, said
        broken += 1
    assert broken >= 4
    assert fleet.one("SELECT COUNT(*) FROM queuemgr_execution") == 200
    assert not migrate(fleet, "--check")
    assert fleet.enqueue(1)


def _breaking_off(directory: Path, at: int) -> Path:
    """`manage.py` that is ended by the operating system at so many operations beside the work."""
    program = directory / "breaking_off.py"
    program.write_text(
        f"""
import os, sys
sys.path.insert(0, {str(REPOSITORY)!r})
import queuemgr.migrating as beside
count = 0
def counted(forwards):
    def run(*given):
        global count
        count += 1
        if count == {at}:
            os.write(2, b"broken off")
            os._exit(9)
        return forwards(*given)
    return run
for operation in (beside.AddIndexConcurrently, beside.AddConstraintNotValid):
    operation.database_forwards = counted(operation.database_forwards)
os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
    )
    return program


@pytest.mark.slow_proof
def test_a_million_rows_are_migrated_while_a_writer_goes_on(make_fleet: MakeFleet) -> None:
    """P4-11: getsentry/sentry#22931. On SQLite there is one writer anyway, and the upgrade waits."""
    fleet = make_fleet()
    if "DATABASE_URL" not in fleet.database.environment:
        pytest.skip("SQLite has one writer: an upgrade wants a stop, as docs/operate.md says")
    assert not migrate(fleet, "queuemgr", BEFORE)
    rows_before(fleet, 1_000_000)
    with writing(fleet) as stalls:
        began = time.perf_counter()
        assert not migrate(fleet)
        took = time.perf_counter() - began
    print(f"migrated in {took:.1f} s; longest stall {max(stalls):.2f} s of {len(stalls)} writes")
    assert max(stalls) < LONGEST_STALL
    assert fleet.one("SELECT COUNT(*) FROM queuemgr_execution") == 1_000_000
