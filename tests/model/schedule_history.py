"""A history of schedules: beats that look at random moments, several at once, and die or lose their
connection between any two of their statements; outages; and clocks that are set forward and back."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from random import Random
from threading import Barrier
from typing import Any

from django.db import connection

from queuemgr.models import Execution, Schedule, ScheduledRun
from queuemgr.schedules import fire, plan
from tests.model import calendar_walk, mortal_processes
from tests.model.calendar_walk import MINUTE, NIGHTS, Drawn
from tests.model.mortal_processes import process

SECOND = timedelta(seconds=1)
APART = 2
"""Seconds between the clocks that beats have read which look at once."""

MOST = 1000
"""The due times that one look makes up for at most."""


class History:
    """Schedules with what they are due by the walk, and a clock that the test sets."""

    def __init__(self, seed: str, nights: int) -> None:
        self.random = Random(seed)
        self.start = self.now = self.latest = NIGHTS[nights % len(NIGHTS)]
        self.timings: dict[str, Drawn] = {}
        self.looked: list[datetime] = []
        """When beats looked of which none died."""

        self.ended = 0
        """Processes that died, or lost their connection."""

    def make(self, count: int, *, intervals: bool = False, **fields: Any) -> None:
        for number in range(count):
            timing = calendar_walk.drawn(self.random, self.start, intervals=intervals)
            name = f"{number:03} {timing}"
            self.timings[name] = timing
            Schedule.objects.create(
                name=name, flow="probe", timing=str(timing), created_at=self.start, **fields
            )
        plan.plan_changed(self.start)

    def let_pass(self, time: timedelta) -> None:
        self.now = max(self.now + time, self.start)
        self.latest = max(self.latest, self.now)

    def look(self, *, ends: float = 0.0, most: int = 3) -> None:
        """Up to `most` beats look at once; each ends with a probability of `ends`, at some statement."""
        several = [
            _Look(
                self.now + self.random.randint(0, APART) * SECOND,
                mortal_processes.drawn(self.random, ends=ends, longest=20),
            )
            for _ in range(self.random.randint(1, most))
        ]
        if connection.vendor == "postgresql" and len(several) > 1:
            _in_threads(several)
        else:
            _one_within_the_other(several)
        self.latest = max(self.latest, *(each.at for each in several))
        self.ended += sum(each.has_ended for each in several)
        if not any(each.has_ended for each in several):
            self.looked.append(self.now)

    def go_on_to(self, end: datetime) -> None:
        """True time passes, and one beat that lives looks every half hour."""
        while self.now < end:
            self.let_pass(min(30 * MINUTE, end - self.now))
            self.look(most=1)

    def due(self, name: str) -> list[datetime]:
        return [at for at in self.timings[name].due(self.start) if at <= self.latest]


class _Look:
    def __init__(self, at: datetime, fate: dict[str, Any]) -> None:
        self.at, self._fate, self.has_ended = at, fate, False

    def take(self, meanwhile: Callable[[], object] | None = None) -> None:
        with process(**self._fate, meanwhile=meanwhile) as one:
            fire.run_due(self.at)
        self.has_ended = one.ended


def _in_threads(several: list[_Look]) -> None:
    """Each with a connection of its own, as processes have."""
    barrier = Barrier(len(several))

    def take(look: _Look) -> None:
        try:
            barrier.wait(timeout=60)
            look.take()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(several)) as pool:
        list(pool.map(take, several))


def _one_within_the_other(several: list[_Look]) -> None:
    """On one connection: the others look between two statements of the first, where it has no transaction."""
    meanwhile: Callable[[], object] | None = None
    for look in several[:-1]:
        meanwhile = partial(look.take, meanwhile)
    several[-1].take(meanwhile)


def check_no_double() -> None:
    """Each execution is of one run, and each run of one execution."""
    keys = Counter(Execution.objects.values_list("key", flat=True))
    assert not [key for key, times in keys.items() if times > 1]
    of_runs = ScheduledRun.objects.filter(outcome="enqueued").values_list("execution_id", flat=True)
    assert Counter(of_runs) == Counter(Execution.objects.values_list("pk", flat=True))


def check_each_was_run(history: History, name: str) -> int:
    """Each due time has an execution, but those that were left out because one look made up for `MOST` later
    ones; nothing else has. Returns how many were due."""
    due, runs = history.due(name), ScheduledRun.objects.filter(schedule__name=name)
    ran = set(runs.filter(outcome="enqueued").values_list("due_at", flat=True))
    assert ran <= set(due), f"{name}: {sorted(ran - set(due))[:5]} were never due"
    left_out: set[datetime] = set()
    for run in runs.exclude(outcome="enqueued"):
        last = run.until or run.due_at
        later = bisect_right(due, run.decided_at) - bisect_right(due, last)
        assert (run.outcome, later >= MOST) == ("missed", True), f"{name}: {run} {run.outcome}, {later} later"
        left_out |= {at for at in due if run.due_at <= at <= last}
    missing = [at for at in due if at not in ran and at not in left_out]
    assert not missing, f"{name}: {len(missing)} are missing: {missing[:5]}"
    return len(due)


def check_each_became_something(history: History, row: Schedule) -> int:
    """Each due time has one execution, or one reason not to; none was missed that beats saw on time."""
    due = history.due(row.name)
    became: dict[datetime, str] = {}
    for run in ScheduledRun.objects.filter(schedule=row).order_by("due_at"):
        span = [at for at in due if run.due_at <= at <= (run.until or run.due_at)]
        assert span, f"{row.name}: {run.due_at} was never due"
        for at in span:
            assert at not in became, f"{row.name}: {at} is {became[at]} and {run.outcome}"
            became[at] = run.outcome
    left = [at for at in due if at not in became]
    assert left == [at for at in (row.held_due_at,) if at], f"{row.name}: {left[:5]} are missing"
    on_time = {at for at in due if _was_seen(at, history.looked)}
    late = [at for at, outcome in became.items() if outcome == "missed" and at in on_time]
    assert not late, f"{row.name}: {late[:5]} were seen on time, and missed"
    return len(due)


def _was_seen(at: datetime, looked: list[datetime]) -> bool:
    """Whether beats looked while it counted as on time; `looked` is in order."""
    after = bisect_right(looked, at - SECOND / 1000)
    return after < len(looked) and looked[after] + APART * SECOND <= at + fire.grace()
