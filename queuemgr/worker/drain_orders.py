"""What is asked of this worker in the database: that it shuts down, or that it takes no work for now.

A shutdown is final: steps still running after a grace are aborted. A drain by a person is not: running steps
end as they would, and once it is resumed the worker takes work again. Every process of the worker polls it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef

from queuemgr.base import transaction
from queuemgr.lifecycle import leases
from queuemgr.lifecycle.redispatch_timer import schedule_redispatch
from queuemgr.models import Worker, WorkerDrain
from queuemgr.worker import worker_row
from queuemgr.worker.current_worker import CurrentWorker

logger = logging.getLogger(__name__)


def follow(worker: CurrentWorker) -> datetime | None:
    """Drain or resume this process as the database says; returns since when its worker shuts down."""
    drained = Exists(WorkerDrain.objects.filter(name=OuterRef("name")))
    rows = Worker.objects.filter(pk=worker.worker_id).annotate(drained=drained)
    row = rows.filter(started_at=worker.row.started_at).values_list("draining_at", "drained").first()
    if row is None:  # gone, or after a restore another's: the parent's next heartbeat inserts it again
        worker_row.find_again(worker)
        return None
    draining_at, is_drained = row
    _follow_drain(worker, is_drained)
    if worker.consumption and not worker.draining.is_set():
        worker.consumption.match(not is_drained)
    return draining_at


def _follow_drain(worker: CurrentWorker, is_drained: bool) -> None:
    if is_drained == worker.drained.is_set():
        return
    if is_drained:
        worker.drained.set()
        drain = WorkerDrain.objects.filter(name=worker.name).first()
        logger.warning("worker %s is %s; it takes no new work until it is resumed (`queue worker resume`)",
                       worker.name, drain.sentence if drain else "drained")  # fmt: skip
    else:
        worker.drained.clear()
        logger.warning("worker %s was resumed: it takes work again", worker.name)


def hand_back(lease_ids: Collection[UUID]) -> None:
    """Return leases whose messages came to a worker that takes no work: others get them.

    The thread that calls it stores results: it waits neither for the scheduler lock nor for the broker.
    """
    with transaction.atomic():
        revoked = leases.revoke_unstarted(lease_ids)
    if revoked:
        schedule_redispatch(0)
