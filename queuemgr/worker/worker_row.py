"""The row of a worker: registered when it starts, kept fresh by its heartbeat, pruned long after it is gone.

No other module writes these rows. Leases refer to them, and so a row that is gone though its worker lives
is inserted again under the same id.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import copy
from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef, Q

from queuemgr.base import transaction
from queuemgr.base.config import queue_settings
from queuemgr.base.scheduler_lock import ROW_WAIT_MS, SchedulerLock, end_when_frozen, limit_row_waits
from queuemgr.lifecycle.publish import broker_address
from queuemgr.models import Lease, Worker, WorkerStatement
from queuemgr.schedules import declared_rows
from queuemgr.scheduling import limit_rows
from queuemgr.scheduling.worker_statements import Statement, digest_of
from queuemgr.worker.current_worker import CurrentWorker
from queuemgr.worker.process_identity import ProcessIdentity

logger = logging.getLogger(__name__)

KEEP_GONE_WORKERS = timedelta(days=1)
"""How long the row of a worker that is gone is kept."""


def register(
    lock: SchedulerLock, name: str, process: ProcessIdentity, queues: Sequence[str], slots: int,
    stated: Statement | None = None, async_slots: int = 0,
) -> Worker:  # fmt: skip
    """Insert the row of a worker that starts, and what it states of limits."""
    row = Worker.objects.create(
        name=name, host=process.host, pid=process.pid, boot_id=process.boot_id,
        pid_namespace=process.pid_namespace, process_started=process.started, queues=list(queues),
        slots=slots, async_slots=async_slots, broker=broker_address(),
        started_at=lock.now, seen_at=lock.now,
    )  # fmt: skip
    _note_statement(row, stated)
    return row


def _note_statement(row: Worker, stated: Statement | None) -> None:
    if stated is not None:
        WorkerStatement.objects.create(worker=row, digest=digest_of(stated), values=stated)


def process_of(row: Worker) -> ProcessIdentity:
    return ProcessIdentity(row.host, row.boot_id, row.pid_namespace, row.pid, row.process_started)


def beat(worker: CurrentWorker) -> None:
    """Store that this worker is alive and what it consumes now; one whose row is gone registers again. Waits
    `ROW_WAIT_MS` at most for whoever has locked the row: the thread has more to hear of."""
    mine = Worker.objects.filter(pk=worker.worker_id, started_at=worker.row.started_at)
    with transaction.atomic():
        now = end_when_frozen(row_wait_ms=ROW_WAIT_MS)
        found = mine.update(seen_at=now, gone_since=None, queues=worker.consumed)
    if not found:
        _register_again(worker, now)


def _register_again(worker: CurrentWorker, now: datetime) -> None:
    """Insert its row under the id it had, which its processes and leases know; under a new one if the
    database, restored from a backup, has given that id to another worker since. A backup may lack limits,
    too: they are there before this worker counts as alive, as its flows stated them when it started."""
    limits = limit_rows.stated() if worker.limits is None else worker.limits
    limit_rows.sync(limits=limits)
    with transaction.atomic():
        taken = Worker.objects.filter(pk=worker.worker_id).exists()
        row = copy(worker.row)
        row.pk, row.seen_at, row.gone_since = None if taken else worker.worker_id, now, None
        row.save(force_insert=True)
        _note_statement(row, declared_rows.with_schedules(limit_rows.statement(limits)))
    logger.warning("the row of worker %s (id %s) was gone: registered again as %s",
                   worker.name, worker.worker_id, row.pk)  # fmt: skip
    worker.row = row


def find_again(worker: CurrentWorker) -> bool:
    """In a child, whose parent may have registered again under a new id: remember the row the parent's
    process has now. Returns whether there is one."""
    row, process = worker.row, process_of(worker.row)
    rows = Worker.objects.filter(
        name=row.name, started_at=row.started_at, pid=process.pid, process_started=process.started
    )
    if found := rows.last():
        worker.row = found
    return found is not None


def rewrite(worker_id: int) -> None:
    """Write the row as it is. Raises `DatabaseError` where the database takes no writes."""
    with transaction.atomic():
        limit_row_waits(ROW_WAIT_MS)
        Worker.objects.filter(pk=worker_id).update(pid=F("pid"))


def deregister(lock: SchedulerLock, worker_id: int) -> None:
    """Store that it takes no more work, for good."""
    Worker.objects.filter(pk=worker_id).update(draining_at=lock.now)


def refresh(worker_id: int, now: datetime) -> None:
    """Have the row of a worker without threads count as alive."""
    Worker.objects.filter(pk=worker_id).update(seen_at=now)


def remove(worker_id: int) -> None:
    """Delete the row of a worker that holds no lease."""
    Worker.objects.filter(pk=worker_id).delete()


def prune(now: datetime) -> int:
    """Delete the rows of workers that were gone for a day; returns how many.

    A row is deleted by the second run that finds it so, unless its worker's heartbeat came in between: when
    every machine has slept, or the clock was set, the rows of live workers look old, too.
    """
    holding = Lease.objects.filter(worker=OuterRef("pk"))
    old = Q(seen_at__lt=now - KEEP_GONE_WORKERS) | Q(seen_at__gt=now + KEEP_GONE_WORKERS)
    gone = Worker.objects.filter(old, ~Exists(holding))
    heard_by_now = now - timedelta(seconds=3 * queue_settings().worker_heartbeat_seconds)
    deleted = gone.filter(gone_since__lt=heard_by_now).delete()[1].get(Worker._meta.label, 0)
    gone.filter(Q(gone_since=None) | Q(gone_since__gt=now)).update(gone_since=now)
    return deleted
