"""Histories of schedules: beats that look at random moments and die anywhere, outages, and clocks that are
set forward and back by up to two days. Which due times there are is found out by a walk minute by minute."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from queuemgr.models import Execution, Schedule, ScheduledRun, State
from queuemgr.schedules import fire, new_runs, plan
from queuemgr.scheduling import limit_rows
from tests.private_servers import DATABASE

MINUTE = timedelta(minutes=1)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Havana")
NIGHTS = (datetime(2026, 3, 28, 18, tzinfo=UTC), datetime(2026, 10, 24, 18, tzinfo=UTC))
"""Before nights in which clocks change in some of the zones."""

STEPS = (1, 2, 5, 15, 60)


class Died(BaseException):
    """A process is gone: nothing catches it."""


@dataclass
class History:
    """Schedules by name, and the moments until which the database's clock has been looked at."""

    random: random.Random
    start: datetime
    schedules: dict[str, tuple[str, int]] = field(default_factory=dict)
    now: datetime = NIGHTS[0]
    latest: datetime = NIGHTS[0]
    deaths: int = 0

    def make(self, count: int, **fields: Any) -> None:
        self.now = self.latest = self.start
        for number in range(count):
            zone, step = self.random.choice(ZONES), self.random.choice(STEPS)
            name = f"{number:04} {zone}"
            self.schedules[name] = (zone, step)
            minute = "*" if step == 1 else f"*/{step}" if step < 60 else "0"
            Schedule.objects.create(
                name=name,
                flow="probe",
                timing=f"cron {minute} * * * * in {zone}",
                created_at=self.start,
                **fields,
            )
        plan.plan_changed(self.start)

    def let_pass(self, time: timedelta) -> None:
        self.now = max(self.now + time, self.start)
        self.latest = max(self.latest, self.now)

    def look(self, monkeypatch: pytest.MonkeyPatch, *, may_die: float) -> None:
        """One of three beats looks; it may die before any of its writes, and then others look soon."""
        if self.random.random() >= may_die:
            fire.run_due(self.now)
            return
        module, name = self.random.choice(
            [(plan, "write"), (new_runs, "insert"), (new_runs, "_recorded"), (fire, "_forget_missed")]
        )
        with monkeypatch.context() as patch, suppress(Died):
            patch.setattr(module, name, self._die)
            fire.run_due(self.now)

    def _die(self, *args: object) -> None:
        self.deaths += 1
        raise Died

    def due(self, name: str, until: datetime) -> list[datetime]:
        zone, step = self.schedules[name]
        return [at for at in walked(zone, step, self.start) if self.start < at <= until]


@cache
def walked(zone: str, step: int, start: datetime) -> list[datetime]:
    there = ZoneInfo(zone)
    return [
        at for at in (start + n * MINUTE for n in range(10 * 1440)) if at.astimezone(there).minute % step == 0
    ]


def runs_of(name: str) -> Iterator[ScheduledRun]:
    return ScheduledRun.objects.filter(schedule__name=name).order_by("due_at").iterator()


def check_no_double() -> None:
    keys = Counter(Execution.objects.values_list("key", flat=True))
    assert not [key for key, times in keys.items() if times > 1]
    executed = ScheduledRun.objects.filter(outcome="enqueued")
    assert executed.count() == Execution.objects.count() == len({run.execution_id for run in executed})


def clocks_history(seed: int, schedules: int, looks: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Clocks step and processes die; afterwards each due time was run once. Returns how many there were."""
    history = History(random.Random(f"clocks {seed}"), NIGHTS[seed % 2])
    history.make(schedules, overlap="allow", misfire="run all", misfire_limit=1000)
    for _ in range(looks):
        history.let_pass(timedelta(seconds=history.random.choice((1, 5, 30, 60, 300, 3600))))
        if history.random.random() < 0.1:
            history.let_pass(timedelta(minutes=history.random.randint(-2880, 2880)))
        for _ in range(history.random.randint(1, 3)):
            history.look(monkeypatch, may_die=0.2)
    end = history.latest + 2 * MINUTE
    while history.now < end:  # true time goes on until it has been everywhere
        history.let_pass(min(timedelta(minutes=30), end - history.now))
        history.look(monkeypatch, may_die=0.0)
    check_no_double()
    return history_is_complete(history)


def history_is_complete(history: History) -> int:
    counted = 0
    for name in history.schedules:
        ran = [run.due_at for run in runs_of(name) if run.outcome == "enqueued"]
        expected = history.due(name, history.now)
        assert ran == expected, f"{name}: {sorted(set(expected) ^ set(ran))[:5]}"
        counted += len(ran)
    return counted


def policies_history(seed: int, schedules: int, looks: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Outages, deaths and runs that take their time, under every policy: each due time becomes something."""
    history = History(random.Random(f"policies {seed}"), NIGHTS[seed % 2])
    history.make(schedules)
    for row in Schedule.objects.all():
        row.misfire = history.random.choice(("skip", "run once", "run all"))
        row.misfire_limit = history.random.randint(1, 10)
        row.overlap = history.random.choice(("allow", "skip", "queue one"))
        row.save()
    for _ in range(looks):
        history.let_pass(timedelta(seconds=history.random.choice((5, 30, 60, 60, 300, 7200))))
        unfinished = list(Execution.objects.filter(finished_at=None).values_list("pk", flat=True))
        ended = history.random.sample(unfinished, len(unfinished) // 2)
        Execution.objects.filter(pk__in=ended).update(state=State.DONE, finished_at=history.now, route=None)
        history.look(monkeypatch, may_die=0.2)
    fire.run_due(history.now)
    check_no_double()
    return sum(everything_is_accounted_for(history, row) for row in Schedule.objects.all())


def everything_is_accounted_for(history: History, row: Schedule) -> int:
    due = history.due(row.name, history.now)
    became: dict[datetime, str] = {}
    for run in runs_of(row.name):
        span = [at for at in due if run.due_at <= at <= (run.until or run.due_at)]
        assert span, f"{row.name}: {run.due_at} was never due"
        for at in span:
            assert at not in became, f"{row.name}: {at} is {became[at]} and {run.outcome}"
            became[at] = run.outcome
    left = [at for at in due if at not in became]
    assert left == [at for at in (row.held_due_at,) if at], (
        f"{row.name} {row.overlap} {row.misfire}: {left[:5]}"
    )
    return len(due)


@pytest.fixture(autouse=True)
def a_database(transactional_db: None, sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    limit_rows.sync()
    monkeypatch.setattr(new_runs.enqueue, "dispatch", lambda: None)


@pytest.mark.parametrize("seed", range(2))
def test_any_history_of_beats_crashes_and_clocks_runs_each_due_time_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clocks_history(seed, 4, 25, monkeypatch) > 50


@pytest.mark.parametrize("seed", range(2))
def test_under_every_policy_each_due_time_has_become_something(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert policies_history(seed, 12, 40, monkeypatch) > 200


@pytest.mark.slow_proof
def test_a_hundred_thousand_due_times_in_long_histories_are_run_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted, seed = 0, 0
    while counted < 100_000:
        counted += clocks_history(seed, 60, 60, monkeypatch)
        counted += policies_history(1000 + seed, 60, 100, monkeypatch)
        seed += 1
    print(f"{DATABASE}: {counted} due times in {seed} pairs of histories")
