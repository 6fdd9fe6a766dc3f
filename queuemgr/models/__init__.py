"""The truth: executions, the leases they run under, the attempts they left, the limits they obey.

Fields, constraints, indexes and adjectives. Verbs live in modules named after them.
"""

from queuemgr.models.choices import FINAL, HELD, NOT_TRIES, Outcome, Priority, State
from queuemgr.models.limits import (
    DailyUsage,
    Gate,
    Limit,
    Pausable,
    PausableQuerySet,
    Queue,
    RetryPolicy,
    pause_sentence,
)
from queuemgr.models.record import Change, Chore
from queuemgr.models.routes import Route, RouteLimit, Wakeup
from queuemgr.models.work import Attempt, Execution, ExecutionQuerySet, Lease, LeaseQuerySet, Worker

__all__ = [
    "FINAL",
    "HELD",
    "NOT_TRIES",
    "Attempt",
    "Change",
    "Chore",
    "DailyUsage",
    "Execution",
    "ExecutionQuerySet",
    "Gate",
    "Lease",
    "LeaseQuerySet",
    "Limit",
    "Outcome",
    "Pausable",
    "PausableQuerySet",
    "Priority",
    "Queue",
    "RetryPolicy",
    "Route",
    "RouteLimit",
    "State",
    "Wakeup",
    "Worker",
    "pause_sentence",
]
