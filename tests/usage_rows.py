"""Rows of what was spent of daily budgets, and what they add up to."""

from __future__ import annotations

from datetime import timedelta

from queuemgr.base.limit_shorthand import DAILY_BUDGET, daily_budget
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import AllowanceUsage


def spend_requests(limit: str, spent: int, *, days: int = 0, zone: str = "UTC") -> AllowanceUsage:
    """So many requests were spent under a limit today, or so many days from now."""
    day = daily_budget(1, zone).period_at(database_now() + timedelta(days=days))
    row: AllowanceUsage = AllowanceUsage.objects.create(
        limit=limit, allowance=DAILY_BUDGET, starts_at=day.starts, spent=spent
    )
    return row


def requests_spent(limit: str = "fleet") -> int:
    """The requests charged to a limit on any day."""
    of_it = AllowanceUsage.objects.filter(limit=limit, allowance=DAILY_BUDGET)
    return sum(of_it.values_list("spent", flat=True))
