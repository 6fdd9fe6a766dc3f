"""The burn-down of the fleet's budget today, by hour so far and at the rate of the last hour from now on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from queuemgr.flows.flow import all_phases
from queuemgr.reporting import burn_down
from queuemgr.reporting.burn_down import Line, Used
from queuemgr.reporting.dashboard import trends
from queuemgr.reporting.dashboard.trend_cache import Trends
from queuemgr.reporting.dashboard.trends import HOUR
from queuemgr.reporting.forecast import Budget, budgets
from queuemgr.reporting.remaining_work import RemainingWork
from queuemgr.scheduling.claims import FLEET
from queuemgr.scheduling.decision_input import Snapshot

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Budgets:
    """The fleet's requests today, in all and by phase, and its budget of them, if it has one."""

    fleet: Budget | None
    line: Line | None
    spent: int
    spent_by_phase: Mapping[str, int]


def budgets_today(
    snapshot: Snapshot, recent: Trends, spent: Mapping[str, int], remaining: RemainingWork
) -> Budgets:
    """The fleet's budget now; `spent` are the requests of today by limit."""
    fleet = next((budget for budget in budgets(snapshot, remaining) if budget.limit == FLEET), None)
    return Budgets(
        fleet=fleet,
        line=_line(fleet, recent) if fleet else None,
        spent=spent.get(FLEET, 0),
        spent_by_phase={phase: spent.get(f"phase:{phase}", 0) for phase in all_phases()},
    )


def _line(budget: Budget, recent: Trends) -> Line:
    """Budget left by hour; an attempt counts in the hour it ended."""
    now, ends = recent.now, budget.resets_at or recent.now
    begins = max(ends - DAY, recent.since)
    first = trends.hour_of(begins) + (HOUR if trends.hour_of(begins) < begins else timedelta())
    hours = (first + n * HOUR for n in range(ceil((now - first) / HOUR)))
    since = (Used(at, trends.cost_since(recent.by_hour, at)) for at in hours)
    return burn_down.line(budget.budget, budget.spent, since, budget.per_hour, ends, now)
