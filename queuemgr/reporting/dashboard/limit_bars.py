"""Limits as bars, what waits on each, and the sentences that say why work waits. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from queuemgr.flows.flow import all_phases
from queuemgr.reporting.allowances import statuses
from queuemgr.reporting.explain import Stopped
from queuemgr.scheduling.claims import FLEET, rule_resolver
from queuemgr.scheduling.decision_input import (
    CLOSED,
    GLOBAL_VIRTUAL_TIME,
    NO_USE,
    BreakerState,
    LimitRule,
    Reason,
    Snapshot,
    Usage,
)

LIMITS = 12
"""Bars shown besides the fleet's and the phases'."""

REASONS = 8


class Note(NamedTuple):
    """A sentence about a limit, of level `warn` or `quiet`."""

    level: str
    text: str


@dataclass(frozen=True, slots=True)
class LimitBar:
    """One limit now: its rule, its use, its breaker, and how many executions wait on it.

    `defined_by` is the limit a person edits: its own name, or the pattern that applies.
    `next_start` is when its rate permits the next start, None when it permits one now.
    """

    name: str
    defined_by: str
    rule: LimitRule
    use: Usage
    breaker: BreakerState
    waiting: int
    now: datetime
    next_start: datetime | None

    @property
    def over(self) -> int:
        """How much more runs than the cap, which was lowered while busy."""
        return max(0, self.use.running - self.rule.max_running) if self.rule.max_running else 0

    @property
    def fullness(self) -> float | None:
        """Use by cap, 0 to 1; None without a cap."""
        most = self.rule.max_running
        return min(1.0, self.use.running / most) if most else None

    @property
    def reserve_share(self) -> float:
        """The part of the cap only high work may take, 0 to 1."""
        most = self.rule.max_running
        return self.rule.reserved_high / most if most else 0.0

    @property
    def open_until(self) -> datetime | None:
        """Until when its breaker is open; None: it is not."""
        return self.breaker.open_until if self.breaker.is_open(self.now) else None

    @property
    def half_open_starts(self) -> int:
        """How many may run at once while its breaker is half-open; 0: it is not."""
        return 0 if self.open_until else self.breaker.half_open_starts

    @property
    def rate(self) -> str:
        """As `20/min`, `1 every 3 s`, with its burst."""
        rate = self.rule.rate
        if rate is None:
            return ""
        burst = f", burst {rate.burst:,}" if rate.burst > 1 else ""
        return f"{pace_text(rate.interval)}{burst}"

    @property
    def notes(self) -> Iterator[Note]:
        if self.rule.paused:
            yield Note("warn", self.rule.paused)
        if breaker_text := self.breaker.text(self.now):
            yield Note("warn", breaker_text)
        if self.rate:
            after = f", next at {self.next_start:%H:%M:%S}" if self.next_start else ""
            yield Note("quiet", f"{self.rate}{after}")
        if self.rule.reserved_high:
            yield Note("quiet", f"{self.rule.reserved_high:,} reserved for high")
        for status in statuses(self.rule.allowances, self.use, self.rule.budget_zone, self.now):
            yield Note("warn" if status.is_spent else "quiet", status.text(self.now))

    @property
    def is_stopped(self) -> bool:
        return bool(self.rule.paused or self.open_until)

    @property
    def is_active(self) -> bool:
        """Is it in use, waited for or stopped at this moment?"""
        budget = self.use.budget()
        used = self.use.leases or self.use.running or budget.spent or budget.reserved
        return bool(used or self.waiting or self.is_stopped or self.half_open_starts or self.next_start)


def pace_text(interval: float) -> str:
    """A whole number of starts in the shortest usual time that holds one."""
    for seconds, unit in ((1, "s"), (60, "min"), (3600, "h"), (86_400, "day")):
        if interval <= seconds and abs(seconds / interval - round(seconds / interval)) < 1e-6:
            return f"{round(seconds / interval):,}/{unit}"
    return f"1 every {interval:g} s"


@dataclass(frozen=True, slots=True)
class LimitBars:
    """The bars shown, widest limits first and then the busiest; `others` are those left out."""

    shown: tuple[LimitBar, ...]
    others: int


def limit_bars(
    snapshot: Snapshot, reasons: Mapping[int, Sequence[Reason]], waiting: Mapping[int, int]
) -> LimitBars:
    """The fleet's and the phases' bars, and of all other limits the busiest; from the reasons that stop each
    route, and how many executions wait on it, whatever else they wait on."""
    on: Counter[str] = Counter()
    for route, stopped in reasons.items():
        for name in {reason.limit for reason in stopped}:
            on[name] += waiting.get(route, 0)
    names = {FLEET, *snapshot.rules, *snapshot.use, *snapshot.breaker_states} - {GLOBAL_VIRTUAL_TIME}
    owner = rule_resolver(snapshot.rules)
    bars = [_bar(name, owner(name) or name, snapshot, on[name]) for name in names]
    wide = sorted((bar for bar in bars if _is_wide(bar.name)), key=_widest)
    narrow = sorted((b for b in bars if not _is_wide(b.name) and _belongs(b)), key=_busiest)
    return LimitBars((*wide, *narrow[:LIMITS]), max(0, len(narrow) - LIMITS))


def _is_wide(name: str) -> bool:
    return name == FLEET or name.startswith("phase:")


def _widest(bar: LimitBar) -> tuple[bool, int, str]:
    """The fleet, then phases in the order they were declared."""
    phases = [f"phase:{phase}" for phase in all_phases()]
    place = phases.index(bar.name) if bar.name in phases else len(phases)
    return bar.name != FLEET, place, bar.name


def _belongs(bar: LimitBar) -> bool:
    """Shown if active or configured; a pattern only while paused, else by its keys."""
    if bar.name.endswith("*"):
        return bool(bar.rule.paused)
    rule = bar.rule
    return bar.is_active or bool(rule.max_running or rule.rate or rule.allowances)


def _busiest(bar: LimitBar) -> tuple[bool, int, float, int, str]:
    return not bar.is_stopped, -bar.waiting, -(bar.fullness or 0.0), -bar.use.running, bar.name


def _bar(name: str, defined_by: str, snapshot: Snapshot, waiting: int) -> LimitBar:
    rule, use = snapshot.rule(name), snapshot.use.get(name, NO_USE)
    state = snapshot.breaker_states.get(name, CLOSED)
    wait = use.start_wait(rule.allowances, snapshot.now)
    next_start = snapshot.now + timedelta(seconds=wait) if wait > 0.05 else None
    return LimitBar(name, defined_by, rule, use, state, waiting, snapshot.now, next_start)


@dataclass(frozen=True, slots=True)
class WaitReasons:
    """The reasons most waited on; `others` counts those left out, `could_start` the executions that wait
    for no reason but their turn."""

    shown: tuple[Stopped, ...]
    others: int
    could_start: int


NOT_DUE = "not due yet: rescheduled, or waiting for a retry"


def wait_reasons(stopped: Sequence[Stopped], could_start: int) -> WaitReasons:
    """The reasons, most waited on first; all that is not due yet is one of them."""
    rest = [stop for stop in stopped if stop.kind != "run_after"]
    if later := [stop for stop in stopped if stop.kind == "run_after"]:
        first = min((stop.until for stop in later if stop.until), default=None)
        waiting = sum(stop.waiting for stop in later)
        rest.append(Stopped("run_after", NOT_DUE, waiting, "run_after", first))
    rest.sort(key=lambda stop: -stop.waiting)
    return WaitReasons(tuple(rest[:REASONS]), max(0, len(rest) - REASONS), could_start)
