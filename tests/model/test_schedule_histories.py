"""Histories of schedules: whatever happens, each due time is run once."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from queuemgr.models import Execution, Schedule, ScheduledRun, State
from queuemgr.schedules import fire, new_runs, plan
from queuemgr.scheduling import limit_rows
from tests.model.calendar_walk import MINUTE
from tests.model.schedule_history import (
    MOST,
    SECOND,
    History,
    check_each_became_something,
    check_each_was_run,
    check_no_double,
)
from tests.private_servers import DATABASE


def clocks_history(seed: int, schedules: int, looks: int) -> int:
    """Clocks are set forward and back, and processes end; then true time passes until it was everywhere:
    each due time is run once. Returns how many there were."""
    history = History(f"clocks {seed}", seed)
    history.make(schedules, overlap="allow", misfire="run all", misfire_limit=MOST)
    for _ in range(looks):
        history.let_pass(history.random.choice((1, 5, 30, 60, 300, 3600)) * SECOND)
        if history.random.random() < 0.1:
            history.let_pass(history.random.randint(-2880, 2880) * MINUTE)
        history.look(ends=0.4)
    history.go_on_to(history.latest + 2 * MINUTE)
    assert history.ended or looks < 50
    check_no_double()
    return sum(check_each_was_run(history, name) for name in history.timings)


def policies_history(seed: int, schedules: int, looks: int) -> int:
    """Outages, pauses, and runs that take their time, under every policy: each due time becomes something."""
    history = History(f"policies {seed}", seed)
    history.make(schedules, intervals=True)
    for row in Schedule.objects.all():
        row.misfire = history.random.choice(("skip", "run once", "run all"))
        row.misfire_limit = history.random.randint(1, 10)
        row.overlap = history.random.choice(("allow", "skip", "queue one"))
        row.save()
    for _ in range(looks):
        history.let_pass(history.random.choice((5, 30, 60, 60, 300, 7200)) * SECOND)
        end_half_of_what_runs(history)
        if history.random.random() < 0.2:
            pause_or_resume(history)
        history.look(ends=0.4)
    history.let_pass(5 * SECOND)
    history.look(most=1)
    assert history.ended or looks < 50
    check_no_double()
    return sum(check_each_became_something(history, row) for row in Schedule.objects.all())


def from_end_history(seed: int, schedules: int, looks: int) -> int:
    """Intervals that are counted from the end of a run: the next is due so long after it, and one runs at a
    time. Returns how many were run."""
    history = History(f"from end {seed}", seed)
    periods = {f"every {minutes}m from end": minutes for minutes in range(1, schedules + 1)}
    for timing in periods:
        Schedule.objects.create(name=timing, flow="probe", timing=timing, created_at=history.start)
    plan.plan_changed(history.start)
    for _ in range(looks):
        history.let_pass(history.random.choice((5, 60, 300, 1800)) * SECOND)
        end_half_of_what_runs(history)
        history.look(ends=0.4)
    check_no_double()
    for timing, minutes in periods.items():
        runs = list(ScheduledRun.objects.filter(schedule__name=timing).order_by("due_at"))
        ends = [history.start, *(run.ended_at for run in runs[:-1])]
        assert [run.due_at for run in runs] == [end and end + minutes * MINUTE for end in ends]
    return ScheduledRun.objects.count()


def end_half_of_what_runs(history: History) -> None:
    unfinished = list(Execution.objects.filter(finished_at=None).order_by("pk").values_list("pk", flat=True))
    ended = history.random.sample(unfinished, len(unfinished) // 2)
    Execution.objects.filter(pk__in=ended).update(state=State.DONE, finished_at=history.now, route=None)


def pause_or_resume(history: History) -> None:
    one = Schedule.objects.filter(name=history.random.choice([*history.timings]))
    if one.filter(paused_at=None).exists():
        until = history.random.choice((None, history.now + timedelta(hours=1)))
        one.update(paused_at=history.now, paused_by="ann", paused_until=until)
    else:
        one.update(paused_at=None, paused_by="", paused_until=None)


Played = Callable[[int, int, int], int]
HISTORIES: dict[Played, tuple[int, int]] = {
    clocks_history: (8, 20), policies_history: (10, 30), from_end_history: (6, 30),
}  # fmt: skip
"""With how many schedules and looks they are played in every run of the tests."""


@pytest.fixture(autouse=True)
def a_database(transactional_db: None, sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    limit_rows.sync()
    monkeypatch.setattr(new_runs.enqueue, "dispatch", lambda: None)
    monkeypatch.setattr(fire, "MOST_SECONDS", 600.0)  # of a machine that is busy


@pytest.mark.parametrize("play", HISTORIES)
def test_in_any_history_of_beats_crashes_and_clocks_each_due_time_is_run_once(play: Played) -> None:
    assert play(1, *HISTORIES[play]) > 30


@pytest.mark.slow_proof
def test_a_hundred_thousand_due_times_in_long_histories_are_run_once_each() -> None:
    counted, seed, since = 0, 100, time.process_time()
    while counted < 100_000:
        for play, schedules, looks in (
            (clocks_history, 30, 60), (policies_history, 40, 100), (from_end_history, 20, 60),
        ):  # fmt: skip
            counted += play(seed, schedules, looks)
            Schedule.objects.all().delete()
            Execution.objects.all().delete()
        seed += 1
    seconds = time.process_time() - since
    print(f"{DATABASE}: {counted:,} due times, 0 double, 0 missing, in {seconds:.0f} s of processor")
