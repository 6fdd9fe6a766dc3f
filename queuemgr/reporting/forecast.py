"""When today's budgets are spent and when the work of each phase is done, at the rate of the last hour.

Estimates for people to plan by, no promise. Those of budgets are forecasts of allowances; those of phases are
linear: they know nothing of limits, of work still to be enqueued, or of what earlier phases will pass on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from queuemgr.base.limit_shorthand import DAILY_BUDGET
from queuemgr.flows.flow import all_phases
from queuemgr.reporting.allowances import AllowanceStatus
from queuemgr.reporting.estimate_ranges import with_ranges
from queuemgr.reporting.remaining_work import RemainingWork, remaining_work
from queuemgr.reporting.throughput import Throughput, throughput
from queuemgr.scheduling.decision_input import Snapshot

MAX_AHEAD = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Budget:
    """One limit's budget today, in requests. `per_hour` is the rate of the last hour; `ends_at` when what
    waits finds it spent at that rate, None when it lasts, or when `because` says why no time is known."""

    limit: str
    budget: int
    spent: int
    reserved: int
    left: int
    per_hour: float
    ends_at: datetime | None
    resets_at: datetime | None
    because: str

    @property
    def is_spent(self) -> bool:
        return self.left == 0


_PLAIN = ("limit", "left", "per_hour", "ends_at", "resets_at", "because")


def forecast(
    snapshot: Snapshot, unfinished: Mapping[str, int], remaining: RemainingWork | None = None
) -> dict[str, Any]:
    """As plain data with stable names; `unfinished` counts the executions in each phase."""
    measured = throughput(snapshot.now)
    remaining = remaining or remaining_work(snapshot.rules, snapshot.now)
    return {
        "measured_seconds": round(measured.seconds),
        "budgets": [_as_data(budget, snapshot.now) for budget in budgets(snapshot, remaining)],
        "phases": [
            _phase(phase, unfinished[phase], snapshot.now, measured)
            for phase in all_phases()
            if unfinished.get(phase)
        ],
    }


def _as_data(budget: Budget, now: datetime) -> dict[str, Any]:
    return with_ranges({name: getattr(budget, name) for name in _PLAIN}, now, ends_at="budget")


def budgets(snapshot: Snapshot, remaining: RemainingWork) -> list[Budget]:
    """The allowances of requests a day, of limits with a rule of their own and of keys in use, by name."""
    return [
        _budget(limit, status)
        for limit, found in remaining.by_limit(snapshot)
        for status in found
        if status.allowance.name == DAILY_BUDGET
    ]


def _budget(limit: str, status: AllowanceStatus) -> Budget:
    ahead = status.forecast
    ends_at = ahead.runs_out_at if ahead else None
    if ends_at and status.resets_at and ends_at >= status.resets_at:
        ends_at = None
    because = "" if ends_at else (ahead and ahead.because) or "lasts until it resets"
    return Budget(
        limit=limit,
        budget=status.most,
        spent=status.used,
        reserved=status.reserved,
        left=status.left,
        per_hour=float(ahead.per_hour if ahead else 0),
        ends_at=ends_at,
        resets_at=status.resets_at,
        because="spent" if status.is_spent else because,
    )


def _phase(phase: str, unfinished: int, now: datetime, measured: Throughput) -> dict[str, Any]:
    per_second = _per_second(measured.executions.get(phase, 0), measured)
    done_at = after(now, unfinished, per_second)
    found = {
        "phase": phase,
        "unfinished": unfinished,
        "per_hour": round(per_second * 3600, 1),
        "done_at": done_at,
        "because": "" if done_at else "nothing went through it in the last hour",
    }
    return with_ranges(found, now, done_at="end")


def _per_second(count: int, measured: Throughput) -> float:
    return count / measured.seconds if measured.seconds else 0.0


def after(now: datetime, amount: int, per_second: float) -> datetime | None:
    """When so much is used up at this rate; None for never, or in more than ten years."""
    if amount <= 0:
        return now
    if not per_second or amount / per_second > MAX_AHEAD.total_seconds():
        return None
    return now + timedelta(seconds=amount / per_second)
