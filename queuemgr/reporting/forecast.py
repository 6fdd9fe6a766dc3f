"""When today's budgets are spent and when the work of each phase is done, at the rate of the last hour.

Linear estimates for people to plan by, no promise: they know nothing of limits, of work still to be
enqueued, or of what earlier phases will pass on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from queuemgr.base.allowance import Allowance
from queuemgr.flows.flow import HIGH, all_phases
from queuemgr.reporting.throughput import Throughput, throughput
from queuemgr.scheduling.decision_input import NO_USE, Snapshot

MAX_AHEAD = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Budget:
    """One limit's budget today, in requests. `per_hour` is the rate of the last hour; `ends_at` when work
    of high priority finds it spent at that rate, None when it lasts, or when `because` says why no time
    is known."""

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
    def share_spent(self) -> float:
        return min(1.0, self.spent / self.budget) if self.budget else 1.0

    @property
    def share_reserved(self) -> float:
        free = 1.0 - self.share_spent
        return min(free, self.reserved / self.budget) if self.budget else 0.0

    @property
    def is_spent(self) -> bool:
        return self.left == 0


_PLAIN = ("limit", "left", "per_hour", "ends_at", "resets_at", "because")


def forecast(snapshot: Snapshot, unfinished: Mapping[str, int]) -> dict[str, Any]:
    """As plain data with stable names; `unfinished` counts the executions in each phase."""
    measured = throughput(snapshot.now)
    return {
        "measured_seconds": round(measured.seconds),
        "budgets": [{name: getattr(b, name) for name in _PLAIN} for b in budgets(snapshot, measured)],
        "phases": [
            _phase(phase, unfinished[phase], snapshot.now, measured)
            for phase in all_phases()
            if unfinished.get(phase)
        ],
    }


def budgets(snapshot: Snapshot, measured: Throughput) -> list[Budget]:
    """The budgets of limits with a rule of their own and of keys in use, by name."""
    names = {*snapshot.use, *(name for name in snapshot.rules if not name.endswith("*"))}
    limited = ((name, budget) for name in sorted(names) if (budget := snapshot.rule(name).budget))
    return [_budget(name, budget, snapshot, measured) for name, budget in limited]


def _budget(name: str, budget: Allowance, snapshot: Snapshot, measured: Throughput) -> Budget:
    use, resets_at = snapshot.use.get(name, NO_USE).budget(), snapshot.rule(name).day_at(snapshot.now).ends
    left = max(0, budget.usable(HIGH) - use.spent - use.reserved)
    per_second = _per_second(measured.requests.get(name, 0), measured)
    ends_at = _after(snapshot.now, left, per_second)
    if ends_at and resets_at and ends_at >= resets_at:
        ends_at = None
    because = "" if ends_at else "lasts until it resets"
    if not left:
        because = "spent"
    elif not per_second:
        because = "nothing spent in the last hour"
    return Budget(
        limit=name,
        budget=budget.amount,
        spent=use.spent,
        reserved=use.reserved,
        left=left,
        per_hour=round(per_second * 3600, 1),
        ends_at=ends_at,
        resets_at=resets_at,
        because=because,
    )


def _phase(phase: str, unfinished: int, now: datetime, measured: Throughput) -> dict[str, Any]:
    per_second = _per_second(measured.executions.get(phase, 0), measured)
    done_at = _after(now, unfinished, per_second)
    return {
        "phase": phase,
        "unfinished": unfinished,
        "per_hour": round(per_second * 3600, 1),
        "done_at": done_at,
        "because": "" if done_at else "nothing went through it in the last hour",
    }


def _per_second(count: int, measured: Throughput) -> float:
    return count / measured.seconds if measured.seconds else 0.0


def _after(now: datetime, amount: int, per_second: float) -> datetime | None:
    """When so much is used up at this rate; None for never, or in more than ten years."""
    if amount <= 0:
        return now
    if not per_second or amount / per_second > MAX_AHEAD.total_seconds():
        return None
    return now + timedelta(seconds=amount / per_second)
