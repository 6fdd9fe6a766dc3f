"""Ends leases that expired: their worker is gone, frozen or cut off, and others take the work over.

Any worker looks, as often as beat and its own thread have it. A look after a long pause means that nobody
could look: the database was away, or all machines slept. Then the leases of workers that lived before
the pause get one heartbeat first, so that what finished meanwhile is stored and not run again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from queuemgr.base import transaction
from queuemgr.base.config import QueueSettings, queue_settings
from queuemgr.base.scheduler_lock import ROW_WAIT_MS, database_now, limit_row_waits
from queuemgr.lifecycle import anomalies, finish, leases, log_context, states
from queuemgr.lifecycle.finish import LostLease
from queuemgr.lifecycle.lease_locks import HeldLease
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Execution, Lease, PeriodicJob, State
from queuemgr.models.workers import live_span
from queuemgr.scheduling import wakeups

logger = logging.getLogger(__name__)

JOB = "expiry"
OUTAGE = "outage"
"""Rows of `PeriodicJob`: when leases were last looked at, and when the last pause of these looks ended."""

SHORTEST_OUTAGE = 2.0
"""Seconds without a look that a busy machine may take."""

LONGEST_LEASE_MARGIN = timedelta(seconds=30)
"""A lease that expires later than one granted now, by more than this, predates a step back of the clock."""


class Expired(NamedTuple):
    """Leases that expired before a worker started them, and those that were lost with their worker."""

    unstarted: list[Grant]
    lost: list[LostLease]


def seconds_between_looks(config: QueueSettings) -> float:
    """Seconds: three looks fit into a heartbeat, so that no lease expires in a pause that goes unnoticed."""
    return min(config.poll_interval, config.heartbeat_seconds / 3)


def look_if_due() -> Expired | None:
    """As `look`, unless somebody else has just looked."""
    last = PeriodicJob.objects.filter(name=JOB).values_list("ran_at", flat=True).first()
    due = timedelta(seconds=seconds_between_looks(queue_settings()))
    now = database_now()
    if last is not None and timedelta() <= now - last < due:
        return None
    return look()


def look() -> Expired:
    """End every lease that expired, and exactly those; after an outage let live workers renew first."""
    now = _note_look()
    _shorten_after_clock_step(now)
    expired = Lease.objects.expired(now)
    unstarted = _revoke(leases.grants_of(list(expired.unstarted().values_list("pk", flat=True))), now)
    _log_unstarted(unstarted)
    cause = partial(cause_of_loss, now=now, outage=_outage_ended())
    return Expired(unstarted, finish.lose(expired.started(), cause, expired_by=now))


@transaction.atomic
def _note_look() -> datetime:
    """Store that leases are looked at now; after a long pause give live workers a heartbeat, before anybody
    else can look. Returns the time."""
    limit_row_waits(ROW_WAIT_MS)
    job, is_new = PeriodicJob.objects.get_or_create(name=JOB, defaults={"ran_at": database_now()})
    if not is_new:
        job = PeriodicJob.objects.select_for_update().get(name=JOB)
    now, last = database_now(), job.ran_at
    PeriodicJob.objects.filter(name=JOB).update(ran_at=now)
    if _was_away(now - last, queue_settings()):
        _give_a_heartbeat(last, now)
    return now


def _revoke(expired: Sequence[Grant], now: datetime) -> list[Grant]:
    with transaction.atomic():
        limit_row_waits(ROW_WAIT_MS)
        revoked = {lease.id for lease in leases.revoke_unstarted(grant.lease_id for grant in expired)}
        anomalies.count(anomalies.LEASE_EXPIRED_UNSTARTED, len(revoked), now)
    return [grant for grant in expired if grant.lease_id in revoked]


@transaction.atomic
def requeue_stranded() -> int:
    """Have executions wait again that are held without a lease, as no code of ours leaves them: a restored
    table might. Returns how many."""
    stranded = Execution.objects.held().filter(lease__isnull=True).values_list("pk", flat=True)
    ids = list(stranded[:STRANDED_AT_ONCE])
    if ids:
        limit_row_waits(ROW_WAIT_MS)
        logger.error("executions without a lease wait again: %s", ids)
        states.move(ids, State.WAITING)
        wakeups.post(limits=[wakeups.EVERYTHING])
    return len(ids)


STRANDED_AT_ONCE = 500


def _was_away(pause: timedelta, config: QueueSettings) -> bool:
    return pause > timedelta(seconds=max(3 * seconds_between_looks(config), SHORTEST_OUTAGE))


def _give_a_heartbeat(last: datetime, now: datetime) -> None:
    """Let the workers that were alive at the last look renew their leases, or finish them."""
    PeriodicJob.objects.update_or_create(name=OUTAGE, defaults={"ran_at": now})
    alive = Lease.objects.expired(now).started().filter(worker__seen_at__gt=live_span(last).since)
    if extended := leases.extend(alive, now):
        logger.warning(
            "no process looked for expired leases for %.0f s (the database was away, or all machines "
            "slept): %d leases get a heartbeat to be renewed",
            (now - last).total_seconds(), extended,
        )  # fmt: skip


def _outage_ended() -> datetime | None:
    return PeriodicJob.objects.filter(name=OUTAGE).values_list("ran_at", flat=True).first()


def _shorten_after_clock_step(now: datetime) -> None:
    latest = now + timedelta(seconds=queue_settings().lease_seconds) + LONGEST_LEASE_MARGIN
    if Lease.objects.filter(expires_at__gt=latest).exists():
        leases.extend(Lease.objects.filter(expires_at__gt=latest), now)


def cause_of_loss(lease: HeldLease, *, now: datetime, outage: datetime | None) -> str:
    """Why this lease expired, as far as the rows tell: its worker is gone, or lives and did not renew it; or
    the database was away."""
    renewed = f"last renewed {lease.renewed_at:%H:%M:%S} UTC"
    if outage is not None and outage >= lease.renewed_at:
        return (
            f"worker {lease.worker} did not come back after an outage (of the database, or of all "
            f"machines) that ended {outage:%H:%M:%S} UTC; {renewed}"
        )
    if lease.worker_seen_at <= live_span(now).since:
        seen = f"{lease.worker_seen_at:%H:%M:%S} UTC"
        return f"worker {lease.worker} is gone: its last heartbeat was {seen}; {renewed}"
    return (
        f"worker {lease.worker} is alive, but stopped renewing this lease: the process of this step is "
        f"frozen or was killed; {renewed}"
    )


def _log_unstarted(unstarted: Iterable[Grant]) -> None:
    for grant in unstarted:
        with log_context.about(grant, log_context.NO_WORKER):
            logger.warning("expired %s on no worker, none started it in time: requeued", grant)
