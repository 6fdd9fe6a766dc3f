"""Enqueues the deliveries of webhooks: executions of a flow of our own, inserted in the transaction that ends
the work they tell of. So there is one for each end and webhook, whoever ended it, and none of an end that
was rolled back. The key of a delivery names both; the unique constraint on keys holds that, too.

Which webhooks there are is read anew after `FRESH_SECONDS`, in a transaction that ends work: that is all
they cost where there are none. What is enqueued says what may be sent to a webhook, and no payload.

Ends of deliveries are reported to nobody.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from django.db.models import Count

from queuemgr.base import process_state
from queuemgr.base.errors import SluiceError
from queuemgr.base.scheduler_lock import SchedulerLock, database_now
from queuemgr.flows.flow import NORMAL
from queuemgr.lifecycle import execution_signals, states
from queuemgr.lifecycle.outcome_rules import OutcomeEffects
from queuemgr.models import UNBOUNDED, Attempt, Batch, Execution, Outcome, State, Webhook, WebhookEvent
from queuemgr.scheduling import parking, routes, wakeups
from queuemgr.scheduling.step_rules import first_step
from queuemgr.steptools import webhook_target

logger = logging.getLogger(__name__)

FLOW = "queue.webhook"
"""Its executions are deliveries."""

FRESH_SECONDS = 5.0
"""How long a process goes by the webhooks it has read: as late may a new or edited one take effect."""

ROWS_AT_A_TIME = 200


class Subscription(NamedTuple):
    """What of a webhook is needed to know what it is to be notified of."""

    name: str
    limit: str
    flows: tuple[str, ...]
    events: frozenset[str]

    def wants(self, event: str, flow: str) -> bool:
        return event in self.events and any(fnmatchcase(flow, pattern) for pattern in self.flows)


class End(NamedTuple):
    """An execution came to an end: which event that is, and what tells this end from others of it."""

    event: str
    execution_id: int
    flow: str
    source: str


def ended(effects: Sequence[OutcomeEffects], now: datetime) -> None:
    """Of leases that ended, once their executions were moved."""
    if subscriptions():
        _enqueue([end for e in effects for end in _ends_of(e)], now)


def _ends_of(e: OutcomeEffects) -> Iterator[End]:
    for event, applies in _OF_ENDS.items():
        if applies(e):
            yield End(event, e.lease.execution_id, e.lease.flow, e.lease.lease_id.hex)


_OF_ENDS: Mapping[str, Callable[[OutcomeEffects], bool]] = {
    WebhookEvent.LOST: lambda e: e.attempt.outcome == Outcome.LOST,
    WebhookEvent.FINISHED: lambda e: e.to in (State.DONE, State.SKIPPED),
    WebhookEvent.FAILED: lambda e: e.to == State.FAILED,
    WebhookEvent.CANCELLED: lambda e: e.to == State.CANCELLED,
}


def moved(event: str, ids: Collection[int], now: datetime) -> None:
    """Of executions that had no lease, once they were moved."""
    if ids and subscriptions():
        rows = Execution.objects.filter(pk__in=ids).order_by("pk").values_list("pk", "flow", "finished_at")
        _enqueue([End(event, pk, flow, _moment(at)) for pk, flow, at in rows], now)


def batch_completed(lock: SchedulerLock, batch: Batch) -> None:
    """Of a batch that completed, once that is stored: also of one that completes again after a retry."""
    event = WebhookEvent.BATCH_COMPLETED
    wanted = [each for each in subscriptions() if each.wants(event, batch.flow)]
    if not wanted:
        return
    outcome = "succeeded" if batch.succeeded else "failed"
    data = {
        "batch": batch.name, "flow": batch.flow, "outcome": outcome,
        "cancelled": batch.cancelled_at is not None, "completed_at": _moment(batch.completed_at),
    }  # fmt: skip
    source = f"{batch.pk}:{outcome}:{data['completed_at']}"
    insert([Delivery(each, "batch.completed", source, data) for each in wanted], lock.now, lock)


def _enqueue(ends: Iterable[End], now: datetime) -> None:
    wanted = [
        (each, end)
        for end in ends
        for each in subscriptions()
        if end.flow != FLOW and each.wants(end.event, end.flow)
    ]
    if not wanted:
        return
    described = _described({end.execution_id for _, end in wanted})
    insert(
        [
            Delivery(
                each,
                f"execution.{end.event}",
                f"{end.execution_id}:{end.source}",
                {**described[end.execution_id], "outcome": _outcome(end.event, described[end.execution_id])},
            )
            for each, end in wanted
            if end.execution_id in described
        ],
        now,
    )


def _outcome(event: str, described: Mapping[str, Any]) -> str:
    return str(described["outcome"] if event == WebhookEvent.FINISHED else event)


def _described(ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """What is reported of executions, by id."""
    counted = Attempt.objects.filter(execution__in=ids).order_by().values_list("execution")
    attempts = dict(counted.annotate(Count("pk")))
    rows = Execution.objects.filter(pk__in=ids).select_related("batch").defer(*UNBOUNDED)
    return {row.pk: _of_execution(row, attempts.get(row.pk, 0)) for row in rows}


def _of_execution(row: Execution, attempts: int) -> dict[str, Any]:
    return {
        "execution": row.pk, "key": row.key, "flow": row.flow, "phase": row.phase, "step": row.step,
        "outcome": row.state, "attempts": attempts, "batch": row.batch.name if row.batch else None,
        "error_kind": row.error_kind or None, "enqueued_at": _moment(row.created_at),
        "ended_at": _moment(row.finished_at) or None,
    }  # fmt: skip


class Delivery(NamedTuple):
    """What is to be reported to whom; `source` distinguishes this end from any other."""

    to: Subscription
    type: str
    source: str
    data: Mapping[str, Any]

    @property
    def key(self) -> str:
        return f"{self.to.name}:{self.type}:{self.source}"

    @property
    def message(self) -> str:
        """The id of what is reported, the same for each attempt and each webhook."""
        return f"msg_{hashlib.sha256(f'{self.type}:{self.source}'.encode()).hexdigest()[:32]}"


def insert(deliveries: Sequence[Delivery], now: datetime, lock: SchedulerLock | None = None) -> None:
    """Insert the executions of these, in the caller's transaction. A full queue takes them, as it takes the
    next step of work that it accepted."""
    made: list[tuple[Execution, Any]] = []
    for each in deliveries:
        try:
            made.append(_execution(each, now))
        except SluiceError as error:  # no end of work may fail for that
            logger.error("%s is not enqueued for webhook %s: %s", each.type, each.to.name, error)
    for start in range(0, len(made), ROWS_AT_A_TIME):
        _insert(made[start : start + ROWS_AT_A_TIME], now, lock)


def _insert(made: Sequence[tuple[Execution, Any]], now: datetime, lock: SchedulerLock | None) -> None:
    ids = routes.ids_of({kind for _, kind in made})
    rows = [row for row, _ in made]
    for row, kind in made:
        row.route_id = ids[kind]
    execution_signals.enqueued(rows, states.insert_new(rows))
    if lock:
        parking.fall_due(lock, set(ids.values()), now)
    else:
        wakeups.post(set(ids.values()))


def _execution(delivery: Delivery, now: datetime) -> tuple[Execution, Any]:
    """Its row, and the kind of its route."""
    payload = {
        "webhook": delivery.to.name, "limit": delivery.to.limit, "id": delivery.message,
        "type": delivery.type, "timestamp": _moment(now), "data": dict(delivery.data),
    }  # fmt: skip
    ref = first_step(FLOW, payload)
    kind = routes.kind_of(ref, NORMAL, payload, resumed=False)
    row = Execution(
        flow=FLOW, key=delivery.key, phase=ref.phase.name, step=ref.step.name, priority=NORMAL,
        payload=payload, run_after=now, created_at=now, attempts_counted_since=now,
    )  # fmt: skip
    return row, kind


def _moment(at: datetime | None) -> str:
    return at.isoformat().replace("+00:00", "Z") if at else ""


_read: tuple[float, tuple[Subscription, ...]] | None = None


def subscriptions() -> tuple[Subscription, ...]:
    """Those that are not paused, as they were up to `FRESH_SECONDS` ago."""
    global _read
    if _read is None or not 0 <= time.monotonic() - _read[0] < FRESH_SECONDS:
        _read = time.monotonic(), tuple(map(subscription, in_force()))
    return _read[1]


def in_force() -> list[Webhook]:
    now = database_now()
    return [row for row in Webhook.objects.order_by("name") if not row.is_paused(now)]


def subscription(row: Webhook) -> Subscription:
    return Subscription(
        row.name, webhook_target.limit_of(row.url), tuple(row.flows.split()), frozenset(row.events.split())
    )


def read_again() -> None:
    """Read the webhooks again next time."""
    global _read
    _read = None


process_state.register(read_again)
