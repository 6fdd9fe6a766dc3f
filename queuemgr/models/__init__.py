"""The truth: executions, the leases they run under, the attempts they left, the limits they obey.

Fields, constraints, indexes and adjectives. Verbs live in modules named after them.
"""

from queuemgr.models.api import ApiToken, GivenAnswer
from queuemgr.models.audit import Change, Chore
from queuemgr.models.batches import Batch
from queuemgr.models.bulk import BulkAction
from queuemgr.models.enums import FINAL, HELD, NOT_TRIES, ActionState, Outcome, Priority, State
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
from queuemgr.models.minute_stats import EVER, MISHAP, Minute, MinuteQuerySet
from queuemgr.models.routes import Route, RouteLimit, Wakeup
from queuemgr.models.work import Attempt, Execution, ExecutionQuerySet, Lease, LeaseQuerySet, Worker

__all__ = [
    "EVER",
    "FINAL",
    "HELD",
    "MISHAP",
    "NOT_TRIES",
    "ActionState",
    "ApiToken",
    "Attempt",
    "Batch",
    "BulkAction",
    "Change",
    "Chore",
    "DailyUsage",
    "Execution",
    "ExecutionQuerySet",
    "Gate",
    "GivenAnswer",
    "Lease",
    "LeaseQuerySet",
    "Limit",
    "Minute",
    "MinuteQuerySet",
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
