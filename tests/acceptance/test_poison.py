"""Work that kills its worker is stopped after three attempts, and takes nothing with it."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet, probes


def test_work_that_kills_its_process_three_times_is_poison_and_the_rest_finishes(
    make_fleet: MakeFleet,
) -> None:
    """P2-05, P2-04, prefork: exactly three attempts, a final state that says why, all else done."""
    fleet = make_fleet(lease_seconds=2)
    fleet.tolerate("SIGKILL", "Traceback")
    fleet.start_worker(4, "prefork")
    _enqueue(fleet, good="prep")
    fleet.wait_until("all ended", lambda: fleet.states().keys() <= {"done", "failed"})
    _check(fleet)


def test_work_that_kills_its_worker_three_times_is_poison_and_the_rest_finishes(
    make_fleet: MakeFleet,
) -> None:
    """P2-05, threads: the supervised worker dies with it and comes back; the rest is elsewhere."""
    fleet = make_fleet()
    fleet.start_worker(4, queues="wrap.normal", name="elsewhere")
    _enqueue(fleet, good="wrap")
    said = fleet.command("run", "--drain", "--workers", "4", "--prep-only", code=2)
    assert "deadly-0: poison" in said
    fleet.wait_until("the others end", lambda: "waiting" not in fleet.states())
    _check(fleet)


@pytest.mark.xfail(reason="those that run beside it are lost with it three times and called poison too")
def test_work_that_runs_beside_poison_in_the_same_process_is_not_poison(fleet: Fleet) -> None:
    """P2-05, threads: 30 good probes share the worker of the deadly one."""
    _enqueue(fleet, good="prep")
    fleet.command("run", "--drain", "--workers", "4", code=2)
    _check(fleet)


def _enqueue(fleet: Fleet, good: str) -> None:
    fleet.commands(
        probes(1, key_prefix="deadly", die=True, seconds=0.2),
        probes(30, key_prefix="good", seconds=0.3, phase=good),
    )


def _check(fleet: Fleet) -> None:
    assert fleet.states("deadly-%") == {"failed": 1}
    assert fleet.states("good-%") == {"done": 30}
    assert fleet.outcomes("deadly-%") == {"lost": 3}
    assert fleet.outcomes("good-%")["done"] == 30
    facts = fleet.database.rows(
        "SELECT error_kind, error_message FROM queuemgr_execution WHERE key = 'deadly-0'"
    )
    assert facts[0][0] == "poison"
    assert "worker was lost 3 times" in facts[0][1]
