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
from queuemgr.base.config import queue_knobs
from queuemgr.flows.outcomes import Done, Failed, Result, Skipped
from queuemgr.scheduling.admission import LAST_TURN, Rule, Snapshot, WaitingRoute, rule_for
from queuemgr.scheduling.claims import blamed

TRANSPORT = frozenset({"network", "timeout", "server_error"})
"""Kinds of error that mean the service was not reached, or could not serve anybody."""

LONGEST_BREAK = 120.0
"""Seconds a breaker closes a limit at most."""

WIDE_OPEN = 64
"""A limit that lets so many through as it reopens is open."""

JITTER = 0.1
"""Share of a wait added at random, and only added, so that fleets do not return together."""

_rng = random.SystemRandom()


# Rates: the clock of a limit moves on as leases begin.


def rated(seen: Snapshot, route: WaitingRoute) -> dict[str, float]:
    """The limits with a rate that a start of this route moves on, and by how many seconds."""
    rates = ((name, seen.rule(name).rate) for name, _ in route.claims)
    return {name: rate.interval for name, rate in rates if rate}


def advance(
    counts: Mapping[int, int], rated_of: Mapping[int, Mapping[str, float]], now: datetime
) -> None:
    """Move clocks on for so many beginnings of each route."""
    for route, count in counts.items():
        for name, interval in rated_of.get(route, {}).items():
            _advance(name, count * interval, now)


def advance_begun(notes: Iterable[str], now: datetime) -> float | None:
    """Move clocks on for leases that begin now, by what their rows note; returns in how many seconds
    the first of these limits may let another through."""
    total: Counter[str] = Counter()
    shortest: list[float] = []
    for note in notes:
        for name, interval in json.loads(note).items() if note else ():
            total[name] += interval
            shortest.append(interval)
    for name, seconds in sorted(total.items()):
        _advance(name, seconds, now)
    return min(shortest, default=None)


def _advance(name: str, seconds: float, now: datetime) -> None:
    """GCRA's step, in one statement so that beginnings at once cannot lose one."""
    sql.run(
        "INSERT INTO queuemgr_gate (name, clock, because, opening, failures, turn) "
        "VALUES (%s, %s, '', 0, 0, 0) ON CONFLICT (name) DO UPDATE SET clock = "
        "CASE WHEN queuemgr_gate.clock > %s THEN queuemgr_gate.clock ELSE %s END + %s",
        [name, now.timestamp() + seconds, now.timestamp(), now.timestamp(), seconds],
    )


def remember_turns(turns: Mapping[str, float]) -> None:
    """How far tenants have come in taking turns."""
    if set(turns) <= {"", LAST_TURN}:
        return
    for name, turn in turns.items():
        if name:
            sql.run(
                "INSERT INTO queuemgr_gate (name, clock, because, opening, failures, turn) "
                "VALUES (%s, 0, '', 0, 0, %s) ON CONFLICT (name) DO UPDATE SET turn = excluded.turn",
                [name, turn],
            )


# Closing and reopening: what endings tell.


@dataclass(frozen=True, slots=True)
class Word:
    """What one ending says of the services behind its keys: when it began, how it ended."""

    limit_keys: str
    began: datetime
    result: Result

    @property
    def about(self) -> tuple[str, ...]:
        """The limits it speaks of: those the step names, else its keys but for the tenant's."""
        named = self.result.limit if isinstance(self.result, Failed) else ""
        return (named,) if named else blamed(self.limit_keys)


def learn(words: Iterable[Word], rules: Mapping[str, Rule], now: datetime) -> set[str]:
    """Close, count or reopen; returns the limits that let more through than before."""
    well: set[tuple[str, datetime]] = set()
    for word in words:
        for name in word.about:
            if _is_answer(word.result):
                well.add((name, word.began))
            elif isinstance(word.result, Failed):
                _complaint(name, word.result, rule_for(rules, name), now)
    return {name for name, began in well if _reopen(name, began)}


def _is_answer(result: Result) -> bool:
    """Did the service answer, be it with a no?"""
    if isinstance(result, Failed):
        closing = result.retry_after is not None or result.kind in CLOSING
        return not closing and result.kind not in TRANSPORT
    return isinstance(result, Done | Skipped)


CLOSING = frozenset({"rate_limited", "quota"})


def _complaint(name: str, failed: Failed, rule: Rule, now: datetime) -> None:
    if failed.kind == "quota":
        ends = rule.day_ends or day_ends(now, rule.budget_zone)
        close(name, ends, "its quota is used up")
    elif failed.retry_after is not None:
        close(
            name,
            _later(now, failed.retry_after),
            f"{failed.kind}, it asked for {failed.retry_after:g} s",
        )
    else:
        _count_failure(name, failed.kind, rule, now)


def _count_failure(name: str, kind: str, rule: Rule, now: datetime) -> None:
    """A 429 that names no time closes at once; other failures when there were enough in a row."""
    failures = _one_more_failure(name)
    over = failures - (1 if kind == "rate_limited" else rule.breaker_after)
    if over >= 0 and (rule.breaker_after or kind == "rate_limited"):
        wait = min(LONGEST_BREAK, queue_knobs().breaker_seconds * 2.0 ** min(over, 16))
        close(name, _later(now, wait), f"{failures} x {kind} in a row")


def _later(now: datetime, seconds: float) -> datetime:
    return now + timedelta(seconds=seconds + _rng.uniform(0, JITTER * seconds))


def close(name: str, until: datetime, because: str) -> None:
    """Let nothing through until then; an earlier end never shortens a later one."""
    sql.run(
        "INSERT INTO queuemgr_gate (name, clock, closed_until, because, opening, failures, turn) "
        "VALUES (%s, 0, %s, %s, 1, 0, 0) ON CONFLICT (name) DO UPDATE SET opening = 1, "
        "because = excluded.because, closed_until = "
        "CASE WHEN queuemgr_gate.closed_until > excluded.closed_until "
        "THEN queuemgr_gate.closed_until ELSE excluded.closed_until END",
        [name, until, because[:200]],
    )


def _one_more_failure(name: str) -> int:
    row = sql.rows(
        "INSERT INTO queuemgr_gate (name, clock, because, opening, failures, turn) "
        "VALUES (%s, 0, '', 0, 1, 0) "
        "ON CONFLICT (name) DO UPDATE SET failures = queuemgr_gate.failures + 1 RETURNING failures",
        [name],
    )
    return int(row[0][0])


def _reopen(name: str, began: datetime) -> bool:
    """One that began after the limit was closed went well: twice as many may run at once."""
    return bool(
        sql.run(
            "UPDATE queuemgr_gate SET failures = 0, opening = "
            "CASE WHEN opening * 2 > %s THEN 0 ELSE opening * 2 END "
            "WHERE name = %s AND (failures > 0 OR opening > 0) "
            "AND (closed_until IS NULL OR closed_until <= %s)",
            [WIDE_OPEN, name, began],
        )
    )


def open_now(names: Collection[str]) -> list[str]:
    """Open these limits at once, as a person asks; returns those that were closed or reopening."""
    if not names:
        return []
    opened = sql.rows(
        "UPDATE queuemgr_gate SET closed_until = NULL, because = '', opening = 0, failures = 0 "
        f"WHERE name IN ({sql.marks(len(names))}) AND (closed_until IS NOT NULL OR opening > 0) "
        "RETURNING name",
        list(names),
    )
    return [name for (name,) in opened]
