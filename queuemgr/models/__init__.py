"""The tables: executions, leases, attempts, workers, routes, limits, batches, the audit log.

Models have fields, constraints, indexes and query methods; what changes rows is in the modules of
`scheduling`, `lifecycle` and `operations`.
"""

from queuemgr.models.alerts import Alert, AlertNotice, AlertSilence, NoticeEvent
from queuemgr.models.api import ApiToken, IdempotencyRecord
from queuemgr.models.audit import AuditEntry, PeriodicJob
from queuemgr.models.batches import Batch, BatchCallback, BatchEvent
from queuemgr.models.bulk import BulkAction
from queuemgr.models.callbacks import CallbackFailure
from queuemgr.models.canvas import CanvasCall
from queuemgr.models.enums import (
    FINAL,
    HELD,
    NOT_COUNTED_AS_ATTEMPT,
    NOT_DONE,
    UNFINISHED,
    UNSUCCESSFUL,
    ActionState,
    Outcome,
    Priority,
    State,
)
from queuemgr.models.limits import (
    LIMIT_FIELDS,
    SHORT_OR_LONG,
    AllowanceClock,
    AllowanceSettlement,
    AllowanceUsage,
    Limit,
    LimitState,
    Pausable,
    Queue,
    RetryPolicy,
    pause_sentence,
)
from queuemgr.models.minute_stats import ALL_TIME, ANOMALY, MinuteStats, MinuteStatsQuerySet
from queuemgr.models.retention import FlowRetention
from queuemgr.models.routes import Route, RouteLimit, Wakeup
from queuemgr.models.saved_views import SavedView
from queuemgr.models.schedules import Misfire, Overlap, RunOutcome, Schedule, ScheduledRun
from queuemgr.models.stated import Stated, WorkerStatement
from queuemgr.models.webhooks import Webhook, WebhookEvent
from queuemgr.models.work import UNBOUNDED, Attempt, Execution, ExecutionQuerySet, Lease, LeaseQuerySet
from queuemgr.models.workers import Worker, WorkerDrain

__all__ = [
    "ALL_TIME",
    "ANOMALY",
    "FINAL",
    "HELD",
    "LIMIT_FIELDS",
    "NOT_COUNTED_AS_ATTEMPT",
    "NOT_DONE",
    "SHORT_OR_LONG",
    "UNBOUNDED",
    "UNFINISHED",
    "UNSUCCESSFUL",
    "ActionState",
    "Alert",
    "AlertNotice",
    "AlertSilence",
    "AllowanceClock",
    "AllowanceSettlement",
    "AllowanceUsage",
    "ApiToken",
    "Attempt",
    "AuditEntry",
    "Batch",
    "BatchCallback",
    "BatchEvent",
    "BulkAction",
    "CallbackFailure",
    "CanvasCall",
    "Execution",
    "ExecutionQuerySet",
    "FlowRetention",
    "IdempotencyRecord",
    "Lease",
    "LeaseQuerySet",
    "Limit",
    "LimitState",
    "MinuteStats",
    "MinuteStatsQuerySet",
    "Misfire",
    "NoticeEvent",
    "Outcome",
    "Overlap",
    "Pausable",
    "PeriodicJob",
    "Priority",
    "Queue",
    "RetryPolicy",
    "Route",
    "RouteLimit",
    "RunOutcome",
    "SavedView",
    "Schedule",
    "ScheduledRun",
    "State",
    "Stated",
    "Wakeup",
    "Webhook",
    "WebhookEvent",
    "Worker",
    "WorkerDrain",
    "WorkerStatement",
    "pause_sentence",
]  # fmt: skip
