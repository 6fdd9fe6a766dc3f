"""A database as it was before the first move of a history."""

from __future__ import annotations

from queuemgr.base import process_state
from queuemgr.models import (
    AllowanceClock,
    AllowanceSettlement,
    AllowanceUsage,
    Attempt,
    Execution,
    Lease,
    Limit,
    LimitState,
    PeriodicJob,
    Queue,
    RetryPolicy,
    Route,
    Wakeup,
    Worker,
)
from tests.flush_tables import delete_audit_log

OLD_FIRST = (
    AllowanceUsage, AllowanceClock, AllowanceSettlement, Wakeup, Attempt, Lease, Execution, Route, LimitState,
    Limit, Queue, RetryPolicy, Worker, PeriodicJob,
)  # fmt: skip


def empty_fleet() -> None:
    for model in OLD_FIRST:
        model._default_manager.all().delete()
    delete_audit_log()
    process_state.reset_all()
