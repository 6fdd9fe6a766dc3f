"""When today's budgets end and when the work of each phase is done, at the speed of the last hour.

Straight lines for people to plan by, no promise: they know nothing of limits, of what is yet to be
enqueued, or of what earlier phases will still hand on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from queuemgr.flows.flow import HIGH, all_phases
from queuemgr.reporting import throughput
from queuemgr.reporting.throughput import Throughput
from queuemgr.scheduling.admission import Snapshot, Usage

LONGEST = timedelta(days=3650)


def forecast(seen: Snapshot, unfinished: Mapping[str, int]) -> dict[str, Any]:
    """As plain data; `unfinished` are the executions in each phase that are not final."""
    speed = throughput.throughput(seen.now)
    return {
        "measured_seconds": round(speed.seconds),
        "budgets": [_budget(name, seen, speed) for name in _with_budgets(seen)],
        "phases": [
            _phase(phase, unfinished[phase], seen.now, speed)
            for phase in all_phases()
            if unfinished.get(phase)
        ],
    }


def _with_budgets(seen: Snapshot) -> Iterator[str]:
    """The limits whose budget counts: those with a rule of their own, and keys in use."""
    names = {name for name in seen.rules if not name.endswith("*")} | set(seen.use)
    return (name for name in sorted(names) if seen.rule(name).daily_budget is not None)


def _budget(name: str, seen: Snapshot, speed: Throughput) -> dict[str, Any]:
    """When work of the highest class will find the budget spent; None: not before it resets."""
    rule, use = seen.rule(name), seen.use.get(name, Usage())
    left = max(0, rule.usable_budget(HIGH) - use.spent - use.reserved)
    per_second = speed.requests.get(name, 0) / speed.seconds if speed.seconds else 0.0
    ends_at = _after(seen.now, left, per_second)
    lasts = ends_at is None or (rule.day_ends is not None and ends_at >= rule.day_ends)
    return {
        "limit": name,
        "left": left,
        "per_hour": round(per_second * 3600, 1),
        "ends_at": None if lasts or ends_at is None else ends_at.isoformat(),
        "resets_at": rule.day_ends.isoformat() if rule.day_ends else None,
        "because": _why_no_end(lasts, per_second, left),
    }


def _why_no_end(lasts: bool, per_second: float, left: int) -> str:
    if not left:
        return "spent"
    if not per_second:
        return "nothing spent in the last hour"
    return "lasts until it resets" if lasts else ""


def _phase(phase: str, unfinished: int, now: datetime, speed: Throughput) -> dict[str, Any]:
    per_second = speed.executions.get(phase, 0) / speed.seconds if speed.seconds else 0.0
    done_at = _after(now, unfinished, per_second)
    return {
        "phase": phase,
        "unfinished": unfinished,
        "per_hour": round(per_second * 3600, 1),
        "done_at": done_at.isoformat() if done_at else None,
        "because": "" if done_at else "nothing went through it in the last hour",
    }


def _after(now: datetime, amount: int, per_second: float) -> datetime | None:
    """When so much is gone at this speed; None for never, or in a decade."""
    if amount <= 0:
        return now
    if not per_second or amount / per_second > LONGEST.total_seconds():
        return None
    return now + timedelta(seconds=amount / per_second)
