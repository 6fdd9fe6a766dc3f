"""The periodic jobs: expire leases, dispatch due work, enqueue known items, roll up, prune.

Each run is claimed by advancing the job's row, so that two beats, or a beat and a worker that stands in
for a missing one, run it once.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import DatabaseError
from django.db.models import Q, QuerySet

from queuemgr.base import sql, transaction
from queuemgr.base.config import queue_settings
from queuemgr.base.errors import QueueFull
from queuemgr.base.scheduler_lock import ROW_WAIT_MS, database_now, hold_scheduler_lock, limit_row_waits
from queuemgr.flows import callbacks
from queuemgr.flows.callbacks import CallbackFailed
from queuemgr.flows.flow import HOUSEKEEPING, all_flows
from queuemgr.lifecycle import (
    batch_completion,
    callback_failures,
    canvas_calls,
    minute_stats,
    periodic_jobs,
    publish,
    unknown_steps,
)
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import FINAL, Attempt, IdempotencyRecord, PeriodicJob, State
from queuemgr.operations import alert_delivery, alert_state
from queuemgr.operations.bulk import runner as bulk_runner
from queuemgr.schedules import declared_rows, fire
from queuemgr.schedules import retention as schedule_retention
from queuemgr.scheduling import allowance_clocks, limit_usage, parking, provider_limits, settings_sync
from queuemgr.worker import expiry, lost_leases, retention, worker_row

logger = logging.getLogger(__name__)

PRUNE_ROWS = 5_000
"""Rows deleted in one transaction, so that pruning a million rows holds no lock for long."""

SETTLED_STATES = tuple(state for state in FINAL if state != State.FAILED)
"""Final states that need no decision by a person."""

KEEP_IDEMPOTENCY_RECORDS = timedelta(hours=24)
"""How long responses are kept for requests repeated with the same idempotency key, as most APIs do."""


def claim(job: str, every: float) -> bool:
    """True for the first caller once `every` seconds have passed since the job last ran.

    A last run more than one period in the future was recorded before the clock was set back.
    """
    now, period = database_now(), timedelta(seconds=every)
    PeriodicJob.objects.get_or_create(name=job, defaults={"ran_at": now - timedelta(days=1)})
    due = Q(ran_at__lte=now - period) | Q(ran_at__gt=now + period)
    return PeriodicJob.objects.filter(due, name=job).update(ran_at=now) == 1


def release(job: str, every: float) -> None:
    """Release a claimed job early, so that it can run again immediately."""
    PeriodicJob.objects.filter(name=job).update(ran_at=database_now() - timedelta(seconds=every))


def tick() -> dict[str, int]:
    """Expire leases and dispatch; returns how many leases were lost and how many were granted."""
    lost = expiry.look().lost
    lost_leases.report(lost)
    expiry.requeue_stranded()
    settings_sync.follow_workers()
    unknown_steps.offer_again(database_now())
    unknown_steps.find_removed(database_now())
    batch_completion.find_overlooked()
    run_schedules()
    with hold_scheduler_lock() as lock:
        limit_row_waits(ROW_WAIT_MS)
        parking.unpark_sample(lock)
    started = dispatch()
    bulk_runner.notify_if_due()
    canvas_calls.look()
    return {"lost": len(lost), "started": started}


def run_schedules() -> None:
    """Enqueue what schedules are due. What goes wrong with them does not keep other work waiting."""
    try:
        declared_rows.retire_removed(database_now())
        fire.run_due()
    except DatabaseError as error:
        if not sql.is_passing(error):
            raise
        logger.warning("schedules are looked at again by the next tick: %s", sql.trouble(error))
    except Exception:
        logger.exception("schedules could not be run; the next tick looks again")


def expire_if_due() -> None:
    """Look for expired leases between two ticks, if nobody else has just done so."""
    expired = expiry.look_if_due()
    if expired and (expired.lost or expired.unstarted):
        lost_leases.report(expired.lost)
        dispatch()


def tick_if_overdue() -> None:
    """Run the tick if no beat has run it for two periods."""
    if claim("tick", every=2 * queue_settings().poll_interval):
        with periodic_jobs.shown_running("tick"):
            tick()


def ask_for_late_jobs(consumed: Collection[str]) -> list[str]:
    """Ask for the other periodic jobs that have not run for two periods, as without a beat, if this worker,
    which consumes these queues, runs them; returns their names. A message that nobody takes expires."""
    if HOUSEKEEPING not in consumed:
        return []
    now, ran = database_now(), dict(PeriodicJob.objects.values_list("name", "ran_at"))
    late = [
        name
        for name, every in periodic_jobs.periods().items()
        if name != "tick" and not _ran_since(ran.get(periodic_jobs.row_of(name)), now, 2 * every)
    ]
    for name in late:
        publish.periodic_job(f"queuemgr.{name}")
    return late


def _ran_since(ran_at: datetime | None, now: datetime, seconds: float) -> bool:
    return ran_at is not None and now - ran_at < timedelta(seconds=seconds)


class Backfilled(NamedTuple):
    """What the backfill of one flow enqueued, and why it stopped: a full queue, or a callback that failed."""

    flow: str
    started: int
    full: QueueFull | None = None
    failure: CallbackFailed | None = None


def backfill_each(limit: int | None = None, *, scheduled: bool = True) -> Iterator[Backfilled]:
    """Enqueue items the flows know of and that have no execution, at most `limit` per flow; without
    `scheduled` not of flows that have a schedule for it. Each flow by itself: one that fails does not keep
    the others from theirs."""
    most = limit or queue_settings().seed_limit
    for flow in all_flows():
        if flow.backfill is None or (flow.has_scheduled_backfill and not scheduled):
            continue
        try:
            yield Backfilled(flow.name, callbacks.backfill(flow, most))
        except QueueFull as full:
            logger.info("backfill of flow %s: %s", flow.name, full)
            yield Backfilled(flow.name, full.new, full=full)
        except CallbackFailed as failure:
            yield Backfilled(flow.name, 0, failure=failure)


def backfill(limit: int | None = None) -> dict[str, int]:
    """Enqueue those of flows that have no schedule of their own for it; returns counts by flow."""
    return {done.flow: done.started for done in backfill_each(limit, scheduled=False)}


def prune() -> dict[str, int]:
    """Delete old attempts of finished executions (if a retention is set), old statistics, workers that
    are gone, and expired idempotency records; returns how many of each.

    Attempts of failed executions are retained until a person decides, or until the execution itself is
    deleted (see `retention`).
    """
    now = database_now()
    return {
        "attempts": _prune_attempts(now),
        "minutes": minute_stats.prune(now, PRUNE_ROWS),
        "workers": worker_row.prune(now),
        "idempotency_records": _delete(
            IdempotencyRecord.objects.filter(at__lt=now - KEEP_IDEMPOTENCY_RECORDS)
        ),
        "files": _cleanup(),
        "callback_failures": callback_failures.prune(now),
        "canvas_calls": canvas_calls.prune(),
        "scheduled_runs": schedule_retention.prune(now, PRUNE_ROWS),
        "periods_of_allowances": limit_usage.prune_periods(now, PRUNE_ROWS),
        "clocks_of_allowances": allowance_clocks.prune(now, PRUNE_ROWS),
        "alerts": alert_state.prune(now),
        "answers_of_providers": provider_limits.prune(now, PRUNE_ROWS),
        **retention.run_slice(),
    }


def alerts() -> dict[str, int]:
    """Look at the dashboard's alarms and send what is new of them, where there is anywhere to send it."""
    found = sent = 0
    try:
        found = alert_state.follow() if alert_delivery.destinations() else 0
    finally:
        sent = alert_delivery.send_due()
    return {"found": found, "sent": sent}


def _cleanup() -> int:
    removed = 0
    for flow in all_flows():
        with suppress(CallbackFailed):  # reported; the other flows' files are removed all the same
            removed += callbacks.cleanup(flow)
    return removed


def roll_up() -> dict[str, int]:
    """Roll up finished minutes into statistics; returns how many attempts were counted."""
    return {"attempts": minute_stats.roll_up(database_now())}


def _prune_attempts(now: datetime) -> int:
    days = queue_settings().keep_attempts_days
    if not days:
        return 0
    until = now - timedelta(days=days)
    counted = minute_stats.complete_to() or until
    old = Attempt.objects.filter(
        ended_at__lt=min(until, counted), execution__state__in=SETTLED_STATES
    ).order_by("ended_at")
    return _delete(old)


def _delete(rows: QuerySet[Any]) -> int:
    """Delete these, `PRUNE_ROWS` in a transaction; returns how many."""
    deleted = 0
    while some := list(rows.values_list("pk", flat=True)[:PRUNE_ROWS]):
        with transaction.atomic():
            deleted += rows.model._default_manager.filter(pk__in=some).delete()[0]
    return deleted
