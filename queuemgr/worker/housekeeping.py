"""The chores beat sends: expire leases, dispatch what fell due, seed known work, roll up, prune.

Every chore is claimed by advancing its row, so two beats, or a beat and a worker standing in for a
missing one, do it once.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from queuemgr.base.config import queue_settings
from queuemgr.base.scheduler_lock import database_now, hold_scheduler_lock
from queuemgr.flows.flow import all_flows
from queuemgr.lifecycle import finish, minute_stats, task_events
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import FINAL, Attempt, Lease, PeriodicJob, State, Worker
from queuemgr.operations import idempotency
from queuemgr.operations.bulk import runner as bulk_runner
from queuemgr.scheduling import wakeups

logger = logging.getLogger(__name__)

PRUNE_ROWS = 5_000
"""Rows deleted in one transaction, so that pruning a million holds no lock for long."""

SETTLED_STATES = tuple(state for state in FINAL if state != State.FAILED)
"""Ends nobody has to look at again."""

KEEP_GONE_WORKERS = timedelta(days=1)


def claim(chore: str, every: float) -> bool:
    """True for whoever is first to ask once `every` seconds have passed since the chore last ran.

    A last run that lies more than a period ahead is one before the clock was set back.
    """
    now, period = database_now(), timedelta(seconds=every)
    PeriodicJob.objects.get_or_create(name=chore, defaults={"ran_at": now - timedelta(days=1)})
    due = Q(ran_at__lte=now - period) | Q(ran_at__gt=now + period)
    return PeriodicJob.objects.filter(due, name=chore).update(ran_at=now) == 1


def release(chore: str, every: float) -> None:
    """Let the next who asks have a chore that was claimed: it is done before its time."""
    PeriodicJob.objects.filter(name=chore).update(ran_at=database_now() - timedelta(seconds=every))


def tick() -> dict[str, int]:
    """Release what ran out and start what fell due; returns counts of both."""
    with hold_scheduler_lock() as lock:
        lost = finish.expire(lock)
        wakeups.unpark_sample(lock)
    for lease in lost:
        renewed = lease.expires_at - timedelta(seconds=queue_settings().lease_seconds)
        logger.warning("expired %s, last renewed %s", lease, f"{renewed:%H:%M:%S}")
    started = dispatch()
    task_events.connection_lost(lost)
    bulk_runner.ask_if_due()
    return {"lost": len(lost), "started": started}


def tick_if_overdue() -> None:
    """Stand in for a beat that is missing or late."""
    if claim("tick", every=2 * queue_settings().poll_interval):
        tick()


def backfill(limit: int | None = None) -> dict[str, int]:
    """Make executions of items known but not under way, at most `limit` for each flow."""
    most = limit or queue_settings().seed_limit
    return {flow.name: flow.backfill(most) for flow in all_flows() if flow.backfill}


def prune() -> dict[str, int]:
    """Forget old attempts of finished executions (if told to keep them so long), gone workers, and
    answers of the API no longer kept.

    Executions are never forgotten; of those that failed the attempts stay too, until a person decides.
    """
    now = database_now()
    tidied = sum(flow.cleanup() for flow in all_flows())
    return {
        "attempts": _prune_attempts(now),
        "minutes": minute_stats.prune(now, PRUNE_ROWS),
        "workers": _prune_workers(now),
        "answers": idempotency.prune(now),
        "files": tidied,
    }


def roll_up() -> dict[str, int]:
    """Roll minutes that are over up into their figures."""
    return {"attempts": minute_stats.roll_up(database_now())}


def _prune_attempts(now: datetime) -> int:
    days = queue_settings().keep_attempts_days
    if not days:
        return 0
    until = now - timedelta(days=days)
    counted = minute_stats.settled_to() or until
    old = Attempt.objects.filter(
        ended_at__lt=min(until, counted), execution__state__in=SETTLED_STATES
    ).order_by("ended_at")
    pruned = 0
    while some := list(old.values_list("pk", flat=True)[:PRUNE_ROWS]):
        with transaction.atomic():
            pruned += Attempt.objects.filter(pk__in=some).delete()[0]
    return pruned


def _prune_workers(now: datetime) -> int:
    holding = Lease.objects.filter(worker=OuterRef("pk"))
    gone = Worker.objects.filter(~Exists(holding), seen_at__lt=now - KEEP_GONE_WORKERS)
    return gone.delete()[0]
