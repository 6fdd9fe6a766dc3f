"""Circuit breakers of limits: shared by the fleet, updated by the results of steps.

A 429 or Retry-After that one worker gets throttles the limit for all of them until then; consecutive
failures to reach the service open its breaker. An open breaker lets nothing start. After that it is
half-open: one start, then, with each success, twice as many, until it is closed.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from queuemgr import signals
from queuemgr.base import sql, sql_lists
from queuemgr.base.config import queue_settings
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.base.signal_delivery import send_after_commit
from queuemgr.flows.outcomes import Done, Failed, Result, Skipped
from queuemgr.flows.retry_policy import exponential
from queuemgr.scheduling.claims import service_keys
from queuemgr.scheduling.decision_input import GLOBAL_VIRTUAL_TIME, RETRY_AFTER, LimitRule, rule_for

TRANSPORT = frozenset({"network", "timeout", "server_error"})
"""Error kinds that mean the service was not reached, or could not serve anybody."""

MAX_OPEN_SECONDS = 120.0
"""Longest time failures open a breaker for, in seconds."""

MAX_HALF_OPEN_STARTS = 64
"""Starts at once; a half-open breaker that would let more through is closed."""

JITTER = 0.1
"""Share of a wait added at random (never subtracted), so that fleets do not return together."""

_INSERT = (
    "INSERT INTO queuemgr_gate "
    "(name, open_reason, half_open_starts, failures, virtual_time, open_until) VALUES"
)

_rng = random.SystemRandom()


class _Known(NamedTuple):
    name: str
    provider_left: str


_LOCK = "SELECT name, provider_left FROM queuemgr_gate WHERE name {these} ORDER BY name{as_sorted}{lock_rows}"


def lock(names: Sequence[str]) -> dict[str, str]:
    """Lock the states of these limits, in the order in which results are recorded, made where there are none;
    returns what providers said is left of each, as `save_provider_left` writes it."""
    if not names:
        return {}
    these = sql_lists.among("text", names)
    held = sql.rows(_Known, sql.typed(_LOCK, these=these.text), these.values)
    if missing := sorted(set(names).difference(row.name for row in held)):
        made = f"{_INSERT} (%s, '', 0, 0, 0, NULL) ON CONFLICT (name) DO NOTHING"
        sql.run_each(made, [(name,) for name in missing])
        return lock(names)
    return {row.name: row.provider_left for row in held}


def save_virtual_times(lock: SchedulerLock, virtual_times: Mapping[str, float]) -> None:
    if set(virtual_times) <= {"", GLOBAL_VIRTUAL_TIME}:
        return
    sql.run_each(
        f"{_INSERT} (%s, '', 0, 0, %s, NULL) "
        "ON CONFLICT (name) DO UPDATE SET virtual_time = excluded.virtual_time",
        [(name, virtual_time) for name, virtual_time in sorted(virtual_times.items()) if name],
    )


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """One step result, as evidence about the services behind its limit keys."""

    limit_keys: str
    started_at: datetime
    result: Result

    @property
    def limits(self) -> tuple[str, ...]:
        """The limit the step names, else all of its keys except the tenant's."""
        named = self.result.limit if isinstance(self.result, Failed) else ""
        return (named,) if named else service_keys(self.limit_keys)


def record_results(
    reports: Iterable[ServiceReport], rules: Mapping[str, LimitRule], now: datetime
) -> set[str]:
    """Open breakers, count failures, or record successes; returns the limits that now let more start."""
    answered: dict[str, set[datetime]] = defaultdict(set)
    failed: dict[str, Counter[_Failure]] = defaultdict(Counter)
    for report in reports:
        for name in report.limits:
            if _is_answer(report.result):
                answered[name].add(report.started_at)
            elif isinstance(report.result, Failed):
                failed[name][_Failure(name, report.result.kind, report.result.retry_after)] += 1
    more: set[str] = set()
    for name in sorted({*answered, *failed}):  # rows are locked in one order, or two of these would deadlock
        for failure, times in failed[name].items():
            _record_failures(failure, times, rule_for(rules, name), now)
        if any([_record_success(name, started_at) for started_at in sorted(answered[name])]):
            more.add(name)
    return more


class _Failure(NamedTuple):
    """Failures of a limit that are recorded together; `retry_after` in seconds, if the service asked."""

    limit: str
    kind: str
    retry_after: float | None


THROTTLES = frozenset({"rate_limited", "quota"})


def _is_answer(result: Result) -> bool:
    """Did the service answer, even if it refused?"""
    if isinstance(result, Failed):
        throttled = result.retry_after is not None or result.kind in THROTTLES
        return not throttled and result.kind not in TRANSPORT
    return isinstance(result, Done | Skipped)


def _record_failures(failure: _Failure, times: int, rule: LimitRule, now: datetime) -> None:
    name, kind, retry_after = failure
    if kind == "quota":
        open_breaker(name, rule.day_at(now).ends or now, "quota used up")
    elif retry_after is not None:
        reason = f"{_status(kind)}, {RETRY_AFTER} {retry_after:g} s"
        open_breaker(name, later(now, retry_after), reason)
    else:
        _count_failures(name, kind, times, rule, now)


def _count_failures(name: str, kind: str, times: int, rule: LimitRule, now: datetime) -> None:
    """A 429 without a time throttles at once; other failures open the breaker after enough in a row."""
    failures = sql.value(
        f"{_INSERT} (%s, '', 0, %s, 0, NULL) "
        "ON CONFLICT (name) DO UPDATE SET failures = queuemgr_gate.failures + excluded.failures "
        "RETURNING failures",
        [name, times],
    )
    threshold = 1 if kind == "rate_limited" else rule.breaker_after
    over = failures - threshold
    if over >= 0 and threshold:
        wait = exponential(queue_settings().breaker_seconds, MAX_OPEN_SECONDS, over)
        open_breaker(name, later(now, wait), f"{failures} x {_status(kind)} in a row")


def _status(kind: str) -> str:
    return "429" if kind == "rate_limited" else kind


def later(now: datetime, seconds: float) -> datetime:
    """So many seconds later, and a little at random."""
    return now + timedelta(seconds=seconds + _rng.uniform(0, JITTER * seconds))


def open_breaker(name: str, until: datetime, reason: str) -> None:
    """Let nothing start until then; an earlier end never shortens a later one."""
    sql.run(
        f"{_INSERT} (%s, %s, 1, 0, 0, %s) ON CONFLICT (name) DO UPDATE SET half_open_starts = 1, "
        "open_reason = excluded.open_reason, open_until = "
        "CASE WHEN queuemgr_gate.open_until > excluded.open_until "
        "THEN queuemgr_gate.open_until ELSE excluded.open_until END",
        [name, reason[:200], until],
    )
    send_after_commit(signals.breaker_opened, lambda: [signals.LimitEvent(name, reason, until)])


def _record_success(name: str, started_at: datetime) -> bool:
    """Double the half-open starts (or close the breaker), if it started after the breaker opened."""
    return bool(
        sql.run(
            "UPDATE queuemgr_gate SET failures = 0, half_open_starts = "
            "CASE WHEN half_open_starts * 2 > %s THEN 0 ELSE half_open_starts * 2 END "
            "WHERE name = %s AND (failures > 0 OR half_open_starts > 0) "
            "AND (open_until IS NULL OR open_until <= %s)",
            [MAX_HALF_OPEN_STARTS, name, started_at],
        )
    )


def save_provider_left(texts: Iterable[tuple[str, str, str]]) -> None:
    """Save what providers of limits said is left: the text, the name, and the text that it replaces."""
    sql.run_each(
        "UPDATE queuemgr_gate SET provider_left = %s WHERE name = %s AND provider_left = %s", list(texts)
    )


def reset(names: Collection[str]) -> list[str]:
    """Close these breakers at once and forget what providers said is left, as a person asks; returns those
    that were open or half-open, or of which something was known."""
    if not names:
        return []
    return sql.column(
        "UPDATE queuemgr_gate SET open_until = NULL, open_reason = '', half_open_starts = 0, failures = 0, "
        f"provider_left = '' WHERE name IN ({sql.marks(len(names))}) "
        "AND (open_until IS NOT NULL OR half_open_starts > 0 OR provider_left <> '') "
        "RETURNING name",
        list(names),
    )
