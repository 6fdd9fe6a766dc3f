"""A simulated worker: a row with slots and no process, whose leases run as long as the benchmark wants.

The scheduler sees a fleet under load, while the machine does nothing for it. Django must be set up.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NewExecution, all_queues
from queuemgr.lifecycle import begin, enqueue, publish
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Lease, Worker

NAME = "played"

sent: list[Grant] = []
"""The grants that would have been published since this was last cleared."""


def catch_messages() -> None:
    """Collect messages here instead of publishing them: nobody would receive them."""

    def caught(grants: Iterable[Grant]) -> int:
        some = list(grants)
        sent.extend(some)
        return len(some)

    publish.send = caught


def probes(name: str, keys: Iterable[str], **payload: object) -> Iterable[NewExecution]:
    """A probe for each limit key, in this order."""
    return (
        NewExecution(f"{name}-{n}", {**payload, **({"limit_key": key} if key else {})})
        for n, key in enumerate(keys)
    )


def hold(keys: list[str]) -> Worker:
    """Let a worker with exactly this many slots hold a lease under each of these keys, for ever.

    Raises `RuntimeError` when the limits do not let all of them start.
    """
    enqueue.enqueue_many("probe", probes("held", keys))
    now = database_now()
    worker = Worker.objects.create(
        name=NAME, host=NAME, pid=1, queues=all_queues(), slots=len(keys),
        started_at=now, seen_at=now,
    )  # fmt: skip
    while dispatch():
        _begin_all(worker)
    running = Lease.objects.started().count()
    if running != len(keys):
        raise RuntimeError(f"{running} of {len(keys)} leases could be given out")
    return worker


def beat() -> None:
    """Have the worker be alive for the next half minute."""
    Worker.objects.filter(name=NAME).update(seen_at=database_now())


def _begin_all(worker: Worker) -> None:
    ids: list[UUID] = list(Lease.objects.unstarted().values_list("pk", flat=True))
    for start in range(0, len(ids), 500):
        begin.begin(ids[start : start + 500], worker.pk)


def ago(**span: float) -> datetime:
    """A time in the past, by the database's clock."""
    return database_now() - timedelta(**span)
