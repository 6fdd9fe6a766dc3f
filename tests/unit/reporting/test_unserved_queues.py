"""Health and doctor judge one thing: does work wait that no live worker could take? Every small fleet is
tried, and compared with what a person would say of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import combinations, product

import pytest

from queuemgr.reporting.stall_check import Movement
from queuemgr.reporting.unserved_queues import WorkerRun, served, unserved
from queuemgr.scheduling.capacity import Group

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
STALLED = 600.0
QUEUES = ("prep.high", "prep.low", "wrap.low")
GROUPS = [Group(some) for size in (0, 1, 2, 3) for some in combinations(QUEUES, size)]


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


LIVE, DIED_NOW, DEAD = (True, ago(1)), (False, ago(60)), (False, ago(3600))
"""Whether a worker takes work, and until when it did."""


def run(group: Group, state: tuple[bool, datetime], slots: int = 2) -> WorkerRun:
    return WorkerRun(group, slots, *state)


def movement(
    runs: tuple[WorkerRun, ...], waiting: Mapping[str, datetime], last_start: datetime | None = None,
    busy: bool = False,
) -> Movement:  # fmt: skip
    idle = {r.queues: 0 if busy else r.slots for r in runs if r.takes_work and r.slots}
    return Movement(NOW, runs, idle, waiting, last_start)


FLEETS = [
    (run(first, state), run(second, other))
    for first, second in product(GROUPS, GROUPS[:5])
    for state, other in product((LIVE, DIED_NOW, DEAD), repeat=2)
]
WAITS = [dict(zip(QUEUES, ages, strict=True)) for ages in product((None, 30, 1200), repeat=3)]
"""For how many seconds work has waited in each queue (None: none waits)."""


@pytest.mark.parametrize("waits", WAITS, ids=str)
def test_progress_fails_exactly_for_work_that_waited_without_a_worker_or_beside_an_idle_one(
    waits: dict[str, int | None],
) -> None:
    waiting = {queue: ago(seconds) for queue, seconds in waits.items() if seconds}
    long = {queue for queue, seconds in waits.items() if seconds and seconds > STALLED}
    for fleet in FLEETS:
        live = {queue for r in fleet if r.takes_work for queue in r.queues}
        lately = {queue for r in fleet if r.served_until > ago(STALLED) for queue in r.queues}
        alone, beside_idle = long - live - lately, long & live
        for busy, last_start in product((False, True), (None, ago(5), ago(3000))):
            said = movement(fleet, waiting, last_start, busy).stalled(STALLED)
            started_lately = last_start == ago(5)
            expected = alone or (beside_idle and not busy and not started_lately)
            assert bool(said) == bool(expected), (fleet, waits, busy, last_start, said)
            if alone and live:
                assert all(queue in said for queue in alone)


@pytest.mark.parametrize("queue", QUEUES)
def test_work_waits_unserved_until_a_worker_with_slots_takes_its_queue(queue: str) -> None:
    waiting = {queue: ago(0)}
    for fleet in FLEETS:
        lacking = unserved(waiting, fleet, NOW)
        assert (queue in lacking) == (queue not in served(fleet))
    housekeeping = (run(Group(), LIVE, slots=0), run(Group(QUEUES), LIVE, slots=0))
    assert queue in unserved(waiting, housekeeping, NOW), "it runs periodic jobs only"


def test_a_living_worker_of_periodic_jobs_does_not_hide_that_every_worker_of_steps_is_dead() -> None:
    fleet = (run(Group(QUEUES), DEAD), run(Group(), LIVE, slots=0))
    stopped = movement(fleet, {"prep.low": ago(700)})
    assert stopped.workers == 0
    assert "no worker has been alive" in stopped.stalled(STALLED)


def test_slots_of_other_queues_are_not_idle_beside_work_they_cannot_take() -> None:
    """Every slot of its own workers is busy with long steps: that is no stall."""
    fleet = (run(Group({"prep.low"}), LIVE), run(Group({"wrap.low"}), LIVE))
    idle = {Group({"prep.low"}): 0, Group({"wrap.low"}): 2}
    assert not Movement(NOW, fleet, idle, {"prep.low": ago(1200)}, ago(3000)).stalled(STALLED)
