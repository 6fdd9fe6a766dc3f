"""A rate in both directions, in simulated time: never exceeded, and used while work waits and slots idle.

The decision, the booking and the times they name are the real ones; simulated are the database, the broker
and time: how long a message takes, how late a timer is, when polls come.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.records import Rate as JudgedRate
from proof.rules.rates import too_early
from queuemgr.base.limit_shorthand import RATE, starts
from queuemgr.base.rate import LEAD, MAX_HOLD, Rate, book
from queuemgr.flows.flow import NORMAL
from queuemgr.reporting.replay.recording import RecordedAttempt, recording
from queuemgr.reporting.replay.simulation import Fleet, replay
from queuemgr.scheduling.admission import Decision, admit
from queuemgr.scheduling.candidates import parking_spot_for
from queuemgr.scheduling.decision_input import (
    LimitRule,
    MeterUsage,
    SchedulingPolicy,
    Snapshot,
    Usage,
    WaitingRoute,
)

BEGAN = datetime(2026, 5, 4, 12, tzinfo=UTC)
QUEUE = "prep.normal"
SHARE_USED = 0.98
LATEST = 0.02
"""Seconds: the longest a decision with its message takes here, and a timer may be late."""


@dataclass
class Clockwork:
    """One limit with its backlog, and slots for all that its rate lets start."""

    rate: Rate
    seconds: float
    poll_interval: float
    random: Random
    clock: float = 0.0
    now: float = 0.0
    unstarted: int = 0
    busy: int = 0
    parked_until: float = 0.0
    starts: list[float] = field(default_factory=list)
    events: list[tuple[float, int, str]] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)

    @property
    def slots(self) -> int:
        held = self.seconds + LEAD + 2 * LATEST
        return self.rate.burst + 3 + int(2 * held / self.rate.interval)

    def at(self, when: float, event: str) -> None:
        heapq.heappush(self.events, (when, next(self.numbers), event))

    def run(self, until: float) -> None:
        self.at(0.0, "poll")
        while self.events and self.events[0][0] <= until:
            self.now, _, event = heapq.heappop(self.events)
            getattr(self, event)()

    def poll(self) -> None:
        self.at(self.now + self.poll_interval, "poll")
        self.decide()

    def decide(self) -> None:
        if self.now < self.parked_until:
            return
        decision = admit(self._snapshot())
        for _ in decision.starts:
            self.unstarted += 1
            self.at(self.now + self.random.uniform(0, LATEST), "begin")
        self._park(decision)

    def begin(self) -> None:
        self.unstarted -= 1
        self.busy += 1
        clocks = {"host:a": self.clock}
        start = book(clocks, {"host:a": self.rate}, self.now)
        assert start - self.now <= LEAD + 1e-3
        self.clock = clocks["host:a"]
        self.starts.append(start)
        self.at(start + self.seconds, "end")

    def end(self) -> None:
        self.busy -= 1
        self.decide()

    def _snapshot(self) -> Snapshot:
        idle, clock = self.slots - self.busy, MeterUsage(clock=BEGAN.timestamp() + self.clock)
        return Snapshot(
            now=BEGAN + timedelta(seconds=self.now),
            routes=(self._route(idle - self.unstarted),),
            rules={"host:a": LimitRule(allowances=(starts(self.rate),))},
            use={"host:a": Usage(0, 0, self.busy + self.unstarted, self.unstarted, {RATE: clock})},
            paused_queues={},
            idle={frozenset({QUEUE}): idle},
            unstarted={QUEUE: self.unstarted},
            ordering=SchedulingPolicy(lead=LEAD),
        )

    def _route(self, due: int) -> WaitingRoute:
        return WaitingRoute(
            id=1, phase="prep", priority=NORMAL, resumed=False, limit_keys="host:a", cost=0, weight=1,
            due=max(due, 1), head_at=BEGAN - timedelta(hours=1), served_at=BEGAN,
        )  # fmt: skip

    def _park(self, decision: Decision) -> None:
        """As `scheduler.schedule` does, and have the timer ring, a little late."""
        self.parked_until = 0.0
        spot = parking_spot_for(self._route(1), decision.reasons.get(1, ()))
        if spot and spot.until:
            self.parked_until = (spot.until - BEGAN).total_seconds()
            self.at(self.parked_until + self.random.uniform(0, LATEST), "decide")


RATES = st.builds(Rate, st.sampled_from((0.02, 1 / 30, 0.2, 1.0, 3.0)), st.sampled_from((1, 1, 1, 2, 7)))


@given(RATES, st.sampled_from((0.0, 0.001, 0.3, 2.0)), st.floats(0.5, 60), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_rate_is_never_exceeded_and_used_to_98_percent_whatever_the_poll_interval(
    rate: Rate, seconds: float, poll_interval: float, seed: int
) -> None:
    run = Clockwork(rate, seconds, poll_interval, Random(seed))
    lasts = 150 * rate.interval
    run.run(lasts)
    starts = sorted(start for start in run.starts if start < lasts)
    assert not too_early(starts, JudgedRate("host:a", 1, rate.interval, rate.burst), tolerance=1e-4)
    assert len(starts) >= SHARE_USED * (rate.burst + lasts / rate.interval - 1)


@given(RATES, st.sampled_from((0.001, 0.3, 2.0)), st.integers(1, 40), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_a_replay_starts_work_under_a_rate_when_the_fleet_does(
    rate: Rate, seconds: float, count: int, seed: int
) -> None:
    """The same work and the same slots; the fleet is late by what its messages and timers take."""
    fleet = Clockwork(rate, seconds, 60.0, Random(seed))
    fleet.run((count + rate.burst) * (rate.interval + seconds) + 1)
    some = [
        RecordedAttempt(
            n, "prep", "probe", NORMAL, "host:a", "", 1, 0, False, "done", BEGAN, BEGAN,
            BEGAN + timedelta(seconds=seconds),
        )
        for n in range(count)
    ]  # fmt: skip
    rules = {"host:a": LimitRule(allowances=(starts(rate),))}
    replayed = replay(recording(some, BEGAN), Fleet(fleet.slots, rules, SchedulingPolicy(lead=LEAD)))
    found = sorted(run.started_at for run in replayed.runs.values() if run.started_at)
    assert len(found) == count
    for moment, start in zip(found, sorted(fleet.starts), strict=False):
        assert (moment - BEGAN).total_seconds() == pytest.approx(start, abs=3 * LATEST)


clocks = st.dictionaries(st.sampled_from("abc"), st.floats(0, 2e9), max_size=3)
limits = st.dictionaries(st.sampled_from("abc"), st.builds(Rate, st.floats(0.001, 3600), st.integers(1, 9)))


@given(clocks, limits, st.floats(1e9, 2e9))
@settings(max_examples=300, deadline=None)
def test_no_clock_however_wrong_holds_a_start_longer_than_its_rate_could(
    ahead: dict[str, float], rates: dict[str, Rate], now: float
) -> None:
    """Clocks left by a slower rate, or by a machine whose clock has been set back since."""
    for name, rate in rates.items():
        wait = rate.wait(ahead.get(name, 0.0) - now, pending=0)
        assert wait <= rate.interval + MAX_HOLD + 1e-6
    start = book(ahead, rates, now)
    assert now <= start <= now + MAX_HOLD
    for name, rate in rates.items():
        assert start + rate.interval <= ahead[name] <= now + rate.farthest + rate.interval + 1e-3


@given(st.lists(limits.filter(bool), min_size=1, max_size=30), st.lists(st.floats(0, 0.02)))
@settings(max_examples=100, deadline=None)
def test_starts_under_several_rates_conform_to_each_of_them(
    starts: list[dict[str, Rate]], pauses: list[float]
) -> None:
    """Each limit has one rate; a start waits for the last of its limits to allow it."""
    rates = {name: rate for each in starts for name, rate in each.items()}
    ahead: dict[str, float] = {}
    began: dict[str, list[float]] = {name: [] for name in rates}
    now, left = 1e9, deque(pauses)
    for each in starts:
        mine = {name: rates[name] for name in each}
        now += left.popleft() if left else 0.0
        now = max([now, *(ahead.get(name, 0.0) - rate.tolerance - LEAD for name, rate in mine.items())])
        start = book(ahead, mine, now)
        for name in each:
            began[name].append(start)
    for name, rate in rates.items():
        judged = JudgedRate(name, 1, rate.interval, rate.burst)
        assert not too_early(sorted(began[name]), judged, tolerance=1e-4)
