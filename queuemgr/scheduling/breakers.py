"""What the fleet learns of the services behind limits, and tells every worker at once.

A 429 or a Retry-After met by one worker closes the limit for all until then; failures to reach the
service, one after another, do the same (a circuit breaker). A limit reopens gently: one start, then,
as each goes well, twice as many.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from queuemgr.base import sql
from queuemgr.base.budget_day import day_ends
from queuemgr.base.config import queue_settings
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.flows.outcomes import Done, Failed, Result, Skipped
from queuemgr.scheduling.admission import (
    GLOBAL_VIRTUAL_TIME,
    LimitRule,
    Snapshot,
    WaitingRoute,
    rule_for,
)
from queuemgr.scheduling.claims import service_keys

TRANSPORT = frozenset({"network", "timeout", "server_error"})
"""Kinds of error that mean the service was not reached, or could not serve anybody."""

MAX_OPEN_SECONDS = 120.0
"""Seconds a breaker closes a limit at most."""

FULLY_CLOSED_AT = 64
"""A limit that lets so many through as it reopens is open."""

JITTER = 0.1
"""Share of a wait added at random, and only added, so that fleets do not return together."""

_COLUMNS = "name, rate_clock, open_reason, half_open_starts, failures, virtual_time"

_rng = random.SystemRandom()


# Rates: the clock of a limit moves on as leases begin.


def rate_debits(seen: Snapshot, route: WaitingRoute) -> dict[str, float]:
    """The limits with a rate that a start of this route moves on, and by how many seconds."""
    rates = ((name, seen.rule(name).rate) for name, _ in route.claims)
    return {name: rate.interval for name, rate in rates if rate}


def advance_clocks(
    counts: Mapping[int, int], rated_of: Mapping[int, Mapping[str, float]], now: datetime
) -> None:
    """Move clocks on for so many beginnings of each route."""
    for route, count in counts.items():
        for name, interval in rated_of.get(route, {}).items():
            _advance_clock(name, count * interval, now)


def advance_clocks_of_begun(notes: Iterable[str], now: datetime) -> float | None:
    """Move clocks on for leases that begin now, by what their rows note; returns in how many seconds
    the first of these limits may let another through."""
    total: Counter[str] = Counter()
    shortest: list[float] = []
    for note in notes:
        for name, interval in json.loads(note).items() if note else ():
            total[name] += interval
            shortest.append(interval)
    for name, seconds in sorted(total.items()):
        _advance_clock(name, seconds, now)
    return min(shortest, default=None)


def _advance_clock(name: str, seconds: float, now: datetime) -> None:
    """GCRA's step, in one statement so that beginnings at once cannot lose one."""
    sql.run(
        f"INSERT INTO queuemgr_gate ({_COLUMNS}) "
        "VALUES (%s, %s, '', 0, 0, 0) ON CONFLICT (name) DO UPDATE SET rate_clock = "
        "CASE WHEN queuemgr_gate.rate_clock > %s THEN queuemgr_gate.rate_clock ELSE %s END + %s",
        [name, now.timestamp() + seconds, now.timestamp(), now.timestamp(), seconds],
    )


def save_virtual_times(lock: SchedulerLock, turns: Mapping[str, float]) -> None:
    """How far tenants have come in taking turns."""
    if set(turns) <= {"", GLOBAL_VIRTUAL_TIME}:
        return
    for name, turn in turns.items():
        if name:
            sql.run(
                f"INSERT INTO queuemgr_gate ({_COLUMNS}) "
                "VALUES (%s, 0, '', 0, 0, %s) "
                "ON CONFLICT (name) DO UPDATE SET virtual_time = excluded.virtual_time",
                [name, turn],
            )


# Closing and reopening: what endings tell.


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """What one ending says of the services behind its keys: when it began, how it ended."""

    limit_keys: str
    began: datetime
    result: Result

    @property
    def about(self) -> tuple[str, ...]:
        """The limits it speaks of: those the step names, else its keys but for the tenant's."""
        named = self.result.limit if isinstance(self.result, Failed) else ""
        return (named,) if named else service_keys(self.limit_keys)


def record_results(
    words: Iterable[ServiceReport], rules: Mapping[str, LimitRule], now: datetime
) -> set[str]:
    """Close, count or reopen; returns the limits that let more through than before."""
    well: set[tuple[str, datetime]] = set()
    for word in words:
        for name in word.about:
            if _is_answer(word.result):
                well.add((name, word.began))
            elif isinstance(word.result, Failed):
                _record_failure(name, word.result, rule_for(rules, name), now)
    return {name for name, began in well if _widen(name, began)}


def _is_answer(result: Result) -> bool:
    """Did the service answer, be it with a no?"""
    if isinstance(result, Failed):
        closing = result.retry_after is not None or result.kind in THROTTLES
        return not closing and result.kind not in TRANSPORT
    return isinstance(result, Done | Skipped)


THROTTLES = frozenset({"rate_limited", "quota"})


def _record_failure(name: str, failed: Failed, rule: LimitRule, now: datetime) -> None:
    if failed.kind == "quota":
        ends = rule.day_ends or day_ends(now, rule.budget_zone)
        open_breaker(name, ends, "its quota is used up")
    elif failed.retry_after is not None:
        open_breaker(
            name,
            _later(now, failed.retry_after),
            f"{failed.kind}, it asked for {failed.retry_after:g} s",
        )
    else:
        _count_failure(name, failed.kind, rule, now)


def _count_failure(name: str, kind: str, rule: LimitRule, now: datetime) -> None:
    """A 429 that names no time closes at once; other failures when there were enough in a row."""
    failures = _one_more_failure(name)
    over = failures - (1 if kind == "rate_limited" else rule.breaker_after)
    if over >= 0 and (rule.breaker_after or kind == "rate_limited"):
        wait = min(MAX_OPEN_SECONDS, queue_settings().breaker_seconds * 2.0 ** min(over, 16))
        open_breaker(name, _later(now, wait), f"{failures} x {kind} in a row")


def _later(now: datetime, seconds: float) -> datetime:
    return now + timedelta(seconds=seconds + _rng.uniform(0, JITTER * seconds))


def open_breaker(name: str, until: datetime, because: str) -> None:
    """Let nothing through until then; an earlier end never shortens a later one."""
    sql.run(
        f"INSERT INTO queuemgr_gate ({_COLUMNS}, open_until) "
        "VALUES (%s, 0, %s, 1, 0, 0, %s) ON CONFLICT (name) DO UPDATE SET half_open_starts = 1, "
        "open_reason = excluded.open_reason, open_until = "
        "CASE WHEN queuemgr_gate.open_until > excluded.open_until "
        "THEN queuemgr_gate.open_until ELSE excluded.open_until END",
        [name, because[:200], until],
    )


def _one_more_failure(name: str) -> int:
    row = sql.rows(
        f"INSERT INTO queuemgr_gate ({_COLUMNS}) "
        "VALUES (%s, 0, '', 0, 1, 0) "
        "ON CONFLICT (name) DO UPDATE SET failures = queuemgr_gate.failures + 1 RETURNING failures",
        [name],
    )
    return int(row[0][0])


def _widen(name: str, began: datetime) -> bool:
    """One that began after the limit was closed went well: twice as many may run at once."""
    return bool(
        sql.run(
            "UPDATE queuemgr_gate SET failures = 0, half_open_starts = "
            "CASE WHEN half_open_starts * 2 > %s THEN 0 ELSE half_open_starts * 2 END "
            "WHERE name = %s AND (failures > 0 OR half_open_starts > 0) "
            "AND (open_until IS NULL OR open_until <= %s)",
            [FULLY_CLOSED_AT, name, began],
        )
    )


def reset(names: Collection[str]) -> list[str]:
    """Open these limits at once, as a person asks; returns those that were closed or reopening."""
    if not names:
        return []
    opened = sql.rows(
        "UPDATE queuemgr_gate SET open_until = NULL, open_reason = '', half_open_starts = 0, failures = 0 "
        f"WHERE name IN ({sql.marks(len(names))}) AND (open_until IS NOT NULL OR half_open_starts > 0) "
        "RETURNING name",
        list(names),
    )
    return [name for (name,) in opened]
