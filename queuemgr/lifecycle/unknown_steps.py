"""Work whose flow or step a worker does not know: that of a newer or an older release, during a deploy.

It waits for a worker that does. A lease of it ends before it begins, so that no attempt is counted and
nothing is charged. While a live worker knows the step the work is offered again, ever more rarely; while none
does it is offered to nobody, and the tick has it offered again as soon as one is there. After
`SLUICE_UNKNOWN_STEP_SECONDS` without one it fails, where everybody sees it. Work of a phase that its flow no
longer has is in a queue that no worker consumes: the tick finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q

from queuemgr import signals
from queuemgr.base import transaction
from queuemgr.base.config import queue_settings
from queuemgr.base.errors import UnknownFlow, UnknownStep
from queuemgr.base.redaction import clean
from queuemgr.base.scheduler_lock import database_now, hold_scheduler_lock
from queuemgr.flows.flow import get_flow
from queuemgr.lifecycle import execution_signals, leases, states, webhook_events
from queuemgr.lifecycle.error_fingerprint import fingerprint
from queuemgr.lifecycle.states import Head
from queuemgr.models import UNBOUNDED, Execution, Route, State, WebhookEvent
from queuemgr.scheduling import parking
from queuemgr.scheduling.worker_statements import read_statements

logger = logging.getLogger(__name__)

KIND = "unknown_step"
"""The error kind of work that waits for a worker that knows it, or failed for want of one."""

FIRST_PAUSE, LAST_PAUSE = 1.0, 60.0
"""Seconds until it is offered again while a live worker knows it: as long as it has been so, within these."""

WOKEN_AT_ONCE = 5_000
REMOVED_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Pause:
    """Until when work of an unknown step waits, why, and whether it then has waited long enough."""

    until: datetime
    why: str
    fails: bool = False


def pause_of(step: str, since: datetime, now: datetime, bound: timedelta, *, is_known: bool) -> Pause:
    """What happens to work that nobody could run `since`; `is_known` to some live worker. Pure."""
    if is_known:
        seconds = min(max(FIRST_PAUSE, (now - since).total_seconds()), LAST_PAUSE)
        return Pause(now + timedelta(seconds=seconds), f"waits for a worker that has {step}: not all have")
    deadline = since + bound
    why = (
        f"no live worker has {step}, since {since:%Y-%m-%d %H:%M} UTC; it fails {deadline:%Y-%m-%d %H:%M} UTC"
    )
    return Pause(deadline, why, fails=now >= deadline)


def is_known_here(flow: str, phase: str, step: str) -> bool:
    """Whether this process has this step."""
    try:
        get_flow(flow).at(phase, step)
    except (UnknownFlow, UnknownStep):
        return False
    return True


def put_back(lease_id: UUID) -> bool:
    """Whether this lease, which no worker has started, is of a step this process does not know: then it has
    ended, and its execution waits."""
    grants = leases.grants_of([lease_id])
    if not grants or is_known_here(grants[0].flow, grants[0].phase, grants[0].step):
        return False
    with transaction.atomic():
        revoked = [lease.execution_id for lease in leases.revoke_unstarted([lease_id])]
        _let_wait(revoked, database_now())
    return True


def keep_known(heads: Sequence[Head], now: datetime) -> list[Head]:
    """Those of these executions, taken for slots of this process, whose step it knows; others wait again."""
    unknown = {head.id for head in heads if not is_known_here(head.flow, head.phase, head.step)}
    if unknown:
        states.move(unknown, State.WAITING)
        _let_wait(unknown, now)
    return [head for head in heads if head.id not in unknown]


def _let_wait(ids: Collection[int], now: datetime) -> None:
    bound = timedelta(seconds=queue_settings().unknown_step_seconds)
    statements = read_statements(now)
    for execution in Execution.objects.filter(pk__in=ids).defer(*UNBOUNDED):
        since = execution.unknown_since or now
        step = f"step {execution.step} of flow {execution.flow}"
        known = statements.knows(execution.flow, execution.phase, execution.step)
        pause = pause_of(step, since, now, bound, is_known=known)
        if pause.fails:
            _fail(execution, pause.why, now)
        else:
            kind = execution.error_kind if known else KIND
            states.wait_for_step(execution.pk, pause.until, clean(pause.why)[:200], since, kind)


def _fail(execution: Execution, why: str, now: datetime) -> None:
    error = {"error_message": why, "error_fingerprint": fingerprint(KIND, execution.step, why)}
    states.move(
        [execution.pk],
        State.FAILED,
        error_kind=KIND,
        wait_reason="",
        unknown_since=None,
        finished_at=now,
        **error,
    )
    execution_signals.moved(signals.execution_failed, [execution.pk])
    webhook_events.moved(WebhookEvent.FAILED, [execution.pk], now)
    logger.error("%s failed: %s", execution, why)


def offer_again(now: datetime) -> int:
    """Have work fall due whose step a live worker knows by now; returns how many."""
    waiting = Execution.objects.waiting().filter(error_kind=KIND)
    places = list(waiting.order_by().values_list("flow", "phase", "step").distinct())
    statements = read_statements(now) if places else None
    woken = 0
    for flow, phase, step in places:
        if statements and statements.knows(flow, phase, step):
            rows = waiting.filter(flow=flow, phase=phase, step=step).values_list("pk", "route_id")
            woken += _wake(dict(rows[:WOKEN_AT_ONCE]), now)
    return woken


def find_removed(now: datetime) -> int:
    """Have work wait whose flow live workers know, but not its phase; and fail what has waited so for too
    long. Returns how many."""
    statements = read_statements(now)
    phases = statements.phases()
    if not phases:
        return 0
    removed = Execution.objects.waiting().filter(
        Q(unknown_since=None) | Q(run_after__lte=now),
        route__in=Route.objects.exclude(phase__in=phases),
        flow__in=statements.flows(),
    )
    ids = list(removed.values_list("pk", flat=True)[:REMOVED_AT_ONCE])
    if ids:
        with transaction.atomic():
            _let_wait(ids, now)
    return len(ids)


def _wake(route_by_id: Mapping[int, int | None], now: datetime) -> int:
    states.offer_again(list(route_by_id), now)
    with hold_scheduler_lock() as lock:
        parking.fall_due(lock, {route for route in route_by_id.values() if route}, now)
    return len(route_by_id)
