"""Schedules in real processes: three beats, two of which are killed again and again, and a clock of the whole
machine that is set two days forward and back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

import pytest

from proof import leftovers, machine, reading
from proof.fleet import Fleet, Pooling
from proof.periodic import MOST_MADE_UP, PERIODIC
from proof.records import History, ScheduledRun
from proof.rules import schedules

TWO_DAYS = 2 * 86_400
PHASE_SECONDS = 75.0
"""Longer than a minute, so that a due time of each minute is in it."""

LATE = 15.0
"""Seconds by which the fleet looks, also after a kill."""

PATIENCE = 120.0

pytestmark = [
    pytest.mark.slow_proof,
    pytest.mark.skipif(not machine.may_step_clocks(), reason="there is no C compiler for the stepped clock"),
]


@pytest.fixture
def fleet(database: str) -> Iterator[Fleet]:
    before = os.umask(0o022)  # its PostgreSQL runs as another user, and reads the clock
    made = Fleet(leftovers.new_directory(), database, {"clock"}, Pooling("session", everyone=False))
    try:
        made.open()
        for name in ("beat-2", "beat-3"):
            made.start_supervised(name, made.beat(name))
        yield made
    finally:
        made.close()
        os.umask(before)


def test_each_due_time_is_run_once_while_beats_die_and_the_clock_steps_two_days_and_back(
    fleet: Fleet,
) -> None:
    random = Random(15)
    began = time.time()
    be_killed(fleet, random)
    forward = time.time()
    fleet.clock.step(TWO_DAYS)
    be_killed(fleet, random)
    back = time.time()
    fleet.clock.step(-TWO_DAYS)
    be_killed(fleet, random)
    runs = all_runs(fleet)
    shown = [(began, forward), (forward + TWO_DAYS, back + TWO_DAYS), (back, back + PHASE_SECONDS)]
    check_minutes([run for run in runs if run.schedule == "proof-minutes"], shown)
    check_seconds([run for run in runs if run.schedule == "proof-seconds"], back)
    check_pauses([run for run in runs if run.schedule == "proof-pauses"], back)


def be_killed(fleet: Fleet, random: Random) -> None:
    """For a while, kill two of the beats and the worker of periodic jobs at random moments."""
    until = time.time() + PHASE_SECONDS
    while time.time() < until:
        name = random.choice(("beat-2", "beat-2", "beat-3", "beat-3", "housekeeping"))
        fleet.groups[name].kill()
        pause = time.time() + random.uniform(0.5, 6.0)
        while time.time() < pause:
            fleet.keep_up()
            time.sleep(0.1)


def all_runs(fleet: Fleet) -> Sequence[ScheduledRun]:
    """Pause the schedules, wait for what they enqueued, and read what became of each due time."""
    for each in PERIODIC:
        done, said = fleet.console.do("queue", "schedule", "pause", each.name, "--reason", "it is over")
        assert done, said
    until = time.time() + PATIENCE
    while unfinished := fleet.tables.rows(UNFINISHED)[0]["n"]:
        assert time.time() < until, f"{unfinished} executions of due times do not end"
        fleet.keep_up()
        time.sleep(0.5)
    runs = reading.scheduled(fleet.tables, float)
    history = History(scheduled=runs, executions=reading.executions(fleet.tables, float))
    assert list(schedules.each_run_has_one_execution(history)) == []
    return [run for run in runs if run.outcome != "skipped"]


UNFINISHED = "SELECT COUNT(*) AS n FROM queuemgr_execution WHERE finished_at IS NULL"


def check_minutes(runs: Sequence[ScheduledRun], shown: Sequence[tuple[float, float]]) -> None:
    """Each minute that the clock showed was run once; those it jumped over were missed but the latest, until
    it comes to the first of them again."""
    ran = [run.due for run in runs if run.outcome == "enqueued"]
    assert len(ran) == len(set(ran))
    due = [minute for since, until in shown for minute in minutes_of(since + LATE, until - LATE)]
    assert [minute for minute in due if minute not in ran] == []
    least = TWO_DAYS - 60 * (MOST_MADE_UP + 1) - PHASE_SECONDS - 2 * LATE
    missed = [run.last - run.due for run in runs if run.outcome == "missed"]
    assert len(missed) <= 1
    assert all(span > least for span in missed)


def minutes_of(since: float, until: float) -> list[float]:
    first = int(since // 60 + 1) * 60
    return [float(minute) for minute in range(first, int(until), 60)]


def check_seconds(runs: Sequence[ScheduledRun], back: float) -> None:
    """An interval continued by its period over the step forward, and anew from the step back."""
    again = [run for run in runs if back <= run.due < back + TWO_DAYS / 2]
    before = [run for run in runs if run not in again]
    for those in (before, again):
        steps = {round(later.due - earlier.last, 3) for earlier, later in pairwise(in_order(those))}
        assert steps == {3.0}
    assert min(run.due for run in again) < back + 3 + LATE
    assert len(again) > 3


def check_pauses(runs: Sequence[ScheduledRun], back: float) -> None:
    """What is counted from the end of a run never overlaps, and continues after both steps."""
    for those in (
        [r for r in runs if r.due < back],
        [r for r in runs if back <= r.due < back + TWO_DAYS / 2],
    ):
        assert len(those) > 1
        for earlier, later in pairwise(in_order(those)):
            assert earlier.ended is not None
            assert later.due >= earlier.ended + 4 - 0.001


def in_order(runs: Sequence[ScheduledRun]) -> list[ScheduledRun]:
    return sorted(runs, key=lambda run: run.due)
