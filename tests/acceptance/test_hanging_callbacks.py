"""A callback of a flow that never ends, or damages its process, takes one process with it, which its
supervisor starts anew, and then is left out: the other flows' callbacks and the jobs of the queue itself
continue."""

from __future__ import annotations

from collections import Counter

import pytest

from queuemgr.worker.background_thread import STEP_STUCK
from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet
from tests.acceptance.processes import Process

RULED = "tests.acceptance.hanging_rules"
OPTIONS = ["-I", "tests.acceptance.hanging_callbacks"]
HANGS = {
    ("odd-limits", "limits"), ("odd-backfill", "backfill"), ("odd-spin", "backfill"),
    ("odd-cleanup", "cleanup"), ("odd-damage", "backfill"),
}  # fmt: skip
"""The flows and callbacks of that module, which is not imported: it would register them here too."""


def _calls(fleet: Fleet) -> Counter[str]:
    """How often each callback of the patient flow was called."""
    log = fleet.directory / "patient.log"
    return Counter(log.read_text().split() if log.exists() else [])


def _hung(fleet: Fleet) -> set[tuple[str, str]]:
    return set(
        fleet.database.rows(
            "SELECT flow, callback FROM queuemgr_callbackfailure "
            "WHERE hung_at IS NOT NULL "
            "AND (problem LIKE 'still ran after%%' OR problem LIKE 'left its process damaged%%')"
        )
    )


SLOW = [pytest.param(pool, marks=pytest.mark.slow_proof) for pool in ("threads", "prefork")]


@pytest.mark.parametrize("pool", ["solo", *SLOW])
def test_callbacks_that_take_a_process_with_them_are_named_and_every_other_periodic_job_continues(
    make_fleet: MakeFleet, pool: str
) -> None:
    fleet = make_fleet(callback_seconds=1, stale_interval=1)
    fleet.tolerate("")
    ended: list[Process] = []

    def start() -> Process:
        slots = 1 if pool == "solo" else 2
        ended.append(
            fleet.start_worker(
                slots, pool, "housekeeping", name=f"jobs{len(ended)}", options=OPTIONS, wait=False
            )
        )
        return ended[-1]

    kept_up = fleet.supervise(start)
    fleet.start_beat()
    fleet.wait_until("each is named", lambda: kept_up() and _hung(fleet) == HANGS, within=80)
    before = _calls(fleet)
    fleet.wait_until(
        "the others continue",
        lambda: kept_up() and all(_calls(fleet)[name] > before[name] + 1 for name in ("backfill", "cleanup")),
        within=40,
    )
    assert {process.wait(5) for process in ended[:-1]} == {STEP_STUCK}
    assert ended[-1].alive and len(ended) <= 1 + len(HANGS)


@pytest.mark.parametrize("pool", ["threads", *[pytest.param("prefork", marks=pytest.mark.slow_proof)]])
def test_a_rule_that_never_ends_leaves_the_finished_step_done_and_holds_no_slot(
    make_fleet: MakeFleet, pool: str
) -> None:
    """By default steps have no time limit that would end it."""
    fleet = make_fleet(callback_seconds=1)
    fleet.tolerate("")
    started: list[Process] = []

    def start() -> Process:
        started.append(
            fleet.start_worker(2, pool, "prep.normal", name=f"w{len(started)}", options=["-I", RULED])
        )
        return started[-1]

    kept_up = fleet.supervise(start)
    fleet.start_program("enqueue", "-m", RULED).end(0)
    fleet.wait_until(
        "all have ended", lambda: kept_up() and fleet.states() == {"failed": 1, "done": 2}, within=40
    )
    assert fleet.database.rows(
        "SELECT a.step, a.outcome FROM queuemgr_attempt a JOIN queuemgr_execution e ON e.id = a.execution_id "
        "WHERE e.key = 'hangs'"
    ) == [("first", "done")]
    kind, message = fleet.database.rows(
        "SELECT error_kind, error_message FROM queuemgr_execution WHERE key = 'hangs'"
    )[0]
    assert kind == "configuration" and "still ran after 1 s" in message
    if pool == "threads":
        assert started[0].wait(20) == STEP_STUCK
