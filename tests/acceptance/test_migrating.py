"""An upgrade beside the work: rows survive, writers keep writing, a killed migration is run again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet

LONGEST_STALL = 5.0
"""Seconds a writer may be kept waiting (the number of the scenario)."""


def upgrade(fleet: Fleet, *killed_at: int) -> str:
    """Migrate to the next release; returns what went wrong."""
    words = ("-m", "tests.acceptance.migrate_to_next_release", *map(str, killed_at))
    run = fleet.start_program("upgrade", *words)
    return run.errors if run.wait(within=180) else ""


def rows_before(fleet: Fleet, count: int) -> None:
    """So many ended executions, as this release stores them."""
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

    def write() -> None:
        import psycopg

        with psycopg.connect(fleet.database.environment["DATABASE_URL"], autocommit=True) as link:
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
    """Each operation in turn is where it is killed."""
    fleet = make_fleet()
    rows_before(fleet, 200)
    killed = 0
    while errors := upgrade(fleet, killed + 1):
        assert "killed half-way" in errors, errors
        killed += 1
    assert killed >= 4
    assert fleet.one("SELECT COUNT(*) FROM queuemgr_execution") == 200
    assert fleet.enqueue(1)


@pytest.mark.slow_proof
@pytest.mark.only_on(
    "postgres", why="SQLite has one writer: an upgrade wants a stop, as docs/operate.md says"
)
def test_a_million_rows_are_migrated_while_a_writer_keeps_writing(make_fleet: MakeFleet) -> None:
    """getsentry/sentry#22931"""
    fleet = make_fleet()
    rows_before(fleet, 1_000_000)
    with writing(fleet) as stalls:
        began = time.perf_counter()
        assert not upgrade(fleet)
        took = time.perf_counter() - began
    print(f"migrated in {took:.1f} s; longest stall {max(stalls):.2f} s of {len(stalls)} writes")
    assert max(stalls) < LONGEST_STALL
    assert fleet.one("SELECT COUNT(*) FROM queuemgr_execution") == 1_000_000
