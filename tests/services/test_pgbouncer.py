"""A fleet behind PgBouncer: limits hold, nothing is lost, and what was forgotten is said."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.databases import PostgresDatabase
from tests.acceptance.fleet import Fleet, probes
from tests.private_servers import ROOT
from tests.services.conftest import need
from tests.services.pgbouncer import PgBouncer

LOCKS = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory'"
MakePooler = Callable[..., PgBouncer]
_numbers = count(1)


@pytest.fixture
def make_pooler() -> Iterator[MakePooler]:
    program, made = need("pgbouncer", "pgbouncer"), []

    def make(mode: str, size: int = 20) -> PgBouncer:
        made.append(PgBouncer(program, ROOT / f"pgbouncer-{next(_numbers)}", mode, size))
        made[-1].start()
        return made[-1]

    yield make
    for pooler in made:
        pooler.kill()


def behind(pooler: PgBouncer, fleet: Fleet) -> Fleet:
    """Lead all processes of a fleet through the pooler; the tests look past it."""
    assert isinstance(fleet.database, PostgresDatabase)
    fleet.environment["DATABASE_URL"] = pooler.url(fleet.database.name)
    return fleet


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_caps_hold_and_nothing_is_lost_or_done_twice_though_a_worker_and_the_pooler_are_killed(
    mode: str, make_pooler: MakePooler, make_fleet: MakeFleet
) -> None:
    pooler = make_pooler(mode)
    fleet = behind(pooler, make_fleet(max_prep=4, lease_seconds=4, transaction_pooling=mode == "transaction"))
    fleet.tolerate("")
    doomed = fleet.start_worker(6, name="doomed", wait=False)
    survivor = fleet.start_worker(4, "prefork", name="survivor", wait=False)
    fleet.wait_for_workers(doomed, survivor)
    fleet.command(*probes(100, seconds=0.1, trace=fleet.trace_file))
    fleet.wait_until("under way", lambda: fleet.states()["done"] >= 20)
    doomed.kill_group()
    died = time.monotonic_ns()
    fleet.wait_until("further", lambda: fleet.states()["done"] >= 45)
    pooler.kill()
    time.sleep(2)
    pooler.start()
    fleet.wait_until_done(100)

    assert fleet.outcomes()["done"] == 100
    lost = {attempt["key"] for attempt in fleet.attempts("--outcome", "lost")}
    trace = fleet.trace().until({"doomed@": died})
    assert trace.passed(4) == []
    assert set(trace.started_again()) <= lost
    fleet.wait_until("no lock is left", lambda: not fleet.one(LOCKS), within=20)
    assert "sluicegate worker" in names(fleet)


def names(fleet: Fleet) -> set[str]:
    """What the sessions on the server are called."""
    rows = fleet.database.rows(
        "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"
    )
    return {name for (name,) in rows}


def problems(fleet: Fleet) -> list[str]:
    """What `doctor` finds wrong with the database."""
    output = fleet.start_program("doctor", "manage.py", "doctor", "--json")
    output.wait(60)
    found = [json.loads(line) for line in output.output.splitlines() if line.startswith("{")]
    return [f"{f['what']}: {f['remedy']}" for f in found if f["level"] == "bad" and "database" in f["what"]]


NOT_TOLD = (
    "the database is behind a pooler in transaction mode: "
    "set SLUICE_TRANSACTION_POOLING=on, or use its session mode"
)


@pytest.mark.parametrize("size", [20, 2, 1])
def test_transaction_mode_that_is_not_configured_is_named_by_doctor(
    size: int, make_pooler: MakePooler, make_fleet: MakeFleet
) -> None:
    fleet = behind(make_pooler("transaction", size), make_fleet())
    assert problems(fleet) == [NOT_TOLD]
    fleet.environment["SLUICE_TRANSACTION_POOLING"] = "on"
    assert problems(fleet) == []


def test_a_worker_warns_of_transaction_mode_as_it_starts(
    make_pooler: MakePooler, make_fleet: MakeFleet
) -> None:
    fleet = behind(make_pooler("transaction"), make_fleet())
    fleet.tolerate("")
    worker = fleet.start_worker(2)
    assert NOT_TOLD in worker.output


def test_session_mode_and_no_pooler_are_not_mistaken_for_transaction_mode(
    make_pooler: MakePooler, make_fleet: MakeFleet
) -> None:
    fleet = make_fleet()
    assert problems(fleet) == []
    assert problems(behind(make_pooler("session"), fleet)) == []
