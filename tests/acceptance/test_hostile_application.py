"""Whatever an application's code does, one attempt is recorded with its true cause, its slot is free, and the
fleet continues. A generated matrix: where the code runs, what it does, in which pool, on which database."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

import pytest

from queuemgr.worker.background_thread import THREAD_DIED
from tests.acceptance import hostile_code as hostile
from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet
from tests.acceptance.hostile_code import Case
from tests.acceptance.hostile_process import DAMAGES

OPTIONS = ["-I", "tests.acceptance.hostile_application"]

RECORDED_WITHIN = 5.0
"""Seconds from the end of a step to its attempt, on a busy machine: half of what its lease would take."""

MOST_RECORDED_WITHIN = 1.0
"""Seconds in which at least half of them are recorded."""

LOGGED = (
    r"application_code: a step failed unexpectedly \[.* key=step\.",
    r"result_store: .*: storing its result failed \[.* key=store\.",
    r"result_store: .*: its result is stored, but a function that its store gave to on_commit failed: .* "
    r"key=after-commit\.",
    r"group_commit: .*: its result could not be stored \[.* key=store\.",
    r"celery\.redirected: Traceback .* key=(step|store)\.",  # logging's own, of an error it cannot format
)
"""What the worker logs as an error of code that fails, and nothing else."""

LOGGED_OF_KILLED = (
    r"ERROR multiprocessing: Process 'ForkPoolWorker-\d+' pid:\d+ exited with",
    r"celery\.worker\.request: Task handler raised error: WorkerLostError\(",
)
"""By the parent of a pool, of a child that died."""

LOGGED_OF_DAMAGED = {
    "no-files": (r"background_thread: this process is damaged: it can open no file ",),
    "broken-builtins": ("",),  # any of its threads may end in a traceback
}


class Recorded(NamedTuple):
    """An attempt of the matrix."""

    step: str
    outcome: str
    error_kind: str
    message: str
    seconds: float
    """From the end of its code, which takes no time but where it sleeps."""


SLOW = pytest.mark.slow_proof


@pytest.mark.parametrize(
    ("pool", "slots"),
    [("threads", 4), pytest.param("prefork", 4, marks=SLOW), pytest.param("solo", 1, marks=SLOW)],
)
def test_whatever_code_does_one_attempt_is_recorded_and_the_fleet_continues(
    make_fleet: MakeFleet, pool: str, slots: int
) -> None:
    fleet = make_fleet()
    fleet.tolerate(*LOGGED, *(LOGGED_OF_KILLED if pool == "prefork" else ()))
    worker = fleet.start_worker(slots, pool, options=OPTIONS)
    fleet.start_program(
        "hostile", "-m", "tests.acceptance.hostile_application", str(fleet.directory), pool
    ).end(0)
    expected = hostile.cases(kills=pool == "prefork")
    fleet.wait_until("every case is recorded", lambda: _settled(fleet) == len(expected), within=120)
    attempts, ends = _attempts(fleet), _ends(fleet)
    assert {case.key: problem for case in expected if (problem := _problem(case, attempts, ends))} == {}
    assert median(attempts[case.key][0].seconds for case in expected) < MOST_RECORDED_WITHIN
    assert worker.alive
    assert fleet.one("SELECT COUNT(*) FROM queuemgr_lease") == 0
    fleet.enqueue(12, key_prefix="good")
    fleet.wait_until_done(12, "good-%", within=15)


@pytest.mark.parametrize(
    ("pool", "damage"),
    [
        pytest.param(pool, damage, marks=SLOW if (pool == "threads") == (damage == "no-files") else [])
        for pool in ("threads", "prefork")
        for damage in DAMAGES
    ],
)
def test_a_process_damaged_beyond_use_ends_itself_and_its_work_is_done_by_another(
    make_fleet: MakeFleet, pool: str, damage: str
) -> None:
    fleet = make_fleet()
    fleet.tolerate(*LOGGED_OF_DAMAGED[damage], *(LOGGED_OF_KILLED if pool == "prefork" else ()))
    worker = fleet.start_worker(2, pool, options=OPTIONS)
    fleet.start_program(
        "hostile", "-m", "tests.acceptance.hostile_application", str(fleet.directory), f"step.{damage}"
    ).end(0)
    if pool == "threads":  # as its supervisor would
        assert worker.wait(within=10) == THREAD_DIED
        fleet.start_worker(2, pool, options=OPTIONS)
    fleet.wait_until("the case is done", lambda: _settled(fleet) == 1, within=15)
    assert _ends(fleet) == {f"step.{damage}": ("done", "")}
    causes = {recorded.message for recorded in _attempts(fleet)[f"step.{damage}"]} - {""}
    assert not [cause for cause in causes if "alive" in cause], "the worker is not: it ended"
    fleet.enqueue(6, key_prefix="good")
    fleet.wait_until_done(6, "good-%", within=10)


@pytest.mark.parametrize("pool", ["threads", pytest.param("prefork", marks=SLOW)])
def test_a_slow_store_delays_no_other_work(make_fleet: MakeFleet, pool: str, database: str) -> None:
    """On SQLite a transaction is the write lock, and everything that writes waits: that is documented."""
    if database == "sqlite":
        pytest.skip("a write transaction of SQLite is its only lock")
    fleet = make_fleet()
    fleet.environment["HOSTILE_SLEEPS"] = "5"
    fleet.start_worker(3, pool, options=OPTIONS)
    fleet.start_program("hostile", "-m", "tests.acceptance.hostile_application", ".", "store.sleeps").end(0)
    fleet.wait_until("it stores", lambda: fleet.database.rows(STORING))
    fleet.enqueue(4, key_prefix="beside")
    fleet.wait_until_done(4, "beside-%", within=10)
    assert fleet.database.rows(STORING), "done while the store runs"
    waits = fleet.database.rows(
        "SELECT extract(epoch FROM a.ended_at - e.created_at) FROM queuemgr_attempt a "
        "JOIN queuemgr_execution e ON e.id = a.execution_id WHERE e.key LIKE 'beside-%%'"
    )
    assert max(float(seconds) for (seconds,) in waits) < 2.0
    fleet.wait_until("stored", lambda: fleet.outcomes("store.sleeps")["done"] == 2)


STORING = "SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction' AND query = 'SELECT 1'"


def _settled(fleet: Fleet) -> int:
    return int(
        fleet.one(
            "SELECT COUNT(*) FROM queuemgr_execution WHERE flow = 'hostile' AND (state IN ('done', 'failed') "
            "OR (state = 'waiting' AND error_kind <> ''))"
        )
    )


def _attempts(fleet: Fleet) -> dict[str, list[Recorded]]:
    found = defaultdict(list)
    for key, step, outcome, kind, message, started, ended in fleet.database.rows(
        "SELECT e.key, a.step, a.outcome, a.error_kind, a.error_message, a.started_at, a.ended_at "
        "FROM queuemgr_attempt a JOIN queuemgr_execution e ON e.id = a.execution_id "
        "WHERE e.flow = 'hostile' ORDER BY a.id"
    ):
        slept = hostile.SLEEPS if key.endswith(".sleeps") else 0.0
        seconds = (_moment(ended) - _moment(started)).total_seconds() - slept
        found[key].append(Recorded(step, outcome, kind, message, seconds))
    return found


def _moment(value: Any) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _ends(fleet: Fleet) -> dict[str, tuple[str, str]]:
    rows = fleet.database.rows("SELECT key, state, error_kind FROM queuemgr_execution WHERE flow = 'hostile'")
    return {key: (state, kind) for key, state, kind in rows}


def _problem(case: Case, attempts: dict[str, list[Recorded]], ends: dict[str, tuple[str, str]]) -> str:
    """What is wrong with how a case was recorded; empty if nothing is."""
    first, *others = attempts[case.key]
    said = [
        f"{a.step} {a.outcome} {a.error_kind} {a.message[:120]!r} {a.seconds:.2f} s"
        for a in attempts[case.key]
    ]
    kind = case.error_kind if case.outcome in ("retried", "failed") else ""
    if (first.outcome, first.error_kind) != (case.outcome, kind):
        return f"first attempt: {said}"
    if case.outcome in ("retried", "failed") and (others or not first.message):
        return f"attempted again, or without a message: {said}"
    if case.error_kind == "configuration" and (others or ends[case.key] != ("failed", "configuration")):
        return f"{ends[case.key]}: {said}"
    if not case.error_kind and ends[case.key] != ("done", ""):
        return f"{ends[case.key]}: {said}"
    if case.outcome == "lost" and [a.outcome for a in others] != ["done", "done"]:
        return f"not done after its loss: {said}"
    if first.seconds > RECORDED_WITHIN:
        return f"recorded late: {said}"
    return ""
