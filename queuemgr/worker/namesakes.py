"""Other workers of the same name, as a worker finds them when it starts.

Those whose process is dead end: their leases are freed at once. One that lives keeps its name, and the
newcomer is refused. Of one that cannot be looked at (in another container, or on another machine) its
heartbeat tells: if it comes the newcomer is refused, and if it stays away for three beats it is gone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from queuemgr.base.errors import NameTaken
from queuemgr.base.scheduler_lock import SchedulerLock, hold_scheduler_lock
from queuemgr.lifecycle import finish
from queuemgr.models import Lease, Worker
from queuemgr.models.workers import live_span
from queuemgr.scheduling.worker_statements import Statement
from queuemgr.worker import lost_leases, process_identity, worker_row
from queuemgr.worker.process_identity import ProcessIdentity, Verdict

logger = logging.getLogger(__name__)

WATCH_SECONDS = 0.25
"""Seconds between two looks at the heartbeat of a namesake."""


class Standing(Enum):
    """What a namesake means for a worker that starts."""

    ENDS = "its process is dead: its leases end at once"
    LEFT = "it may be frozen or cut off: its leases end when they expire"
    WATCHED = "it may be alive: its heartbeat is waited for"
    REFUSES = "it is alive: the newcomer must not start"


def standing(verdict: Verdict, *, live: bool, moved: bool) -> Standing:
    """`live`: its last heartbeat is recent; `moved`: it had another heartbeat while we watched."""
    if verdict is Verdict.DEAD:
        return Standing.ENDS
    if not live:
        return Standing.LEFT
    return Standing.REFUSES if moved or verdict is Verdict.ALIVE else Standing.WATCHED


class Namesake(NamedTuple):
    row: Worker
    standing: Standing


def register(
    name: str, queues: Collection[str], slots: int, stated: Statement | None = None, async_slots: int = 0
) -> Worker:
    """Insert the row of a worker that starts, once no other of its name can be alive: at once, or after
    three missed heartbeats of the other; `stated` is what it states of limits. Raises `NameTaken` if the
    other is alive."""
    process = process_identity.this_process()
    seen: dict[int, datetime] = {}
    while True:
        with hold_scheduler_lock() as lock:
            found = _namesakes(lock, name, process, seen)
            if not _watched(found):
                row = worker_row.register(lock, name, process, sorted(queues), slots, stated, async_slots)
                break
            _log_new(lock, found, seen)
        time.sleep(WATCH_SECONDS)
    for namesake in found:
        if namesake.standing is Standing.ENDS:
            end_leases_of(namesake.row)
    return row


def _namesakes(
    lock: SchedulerLock, name: str, here: ProcessIdentity, seen: dict[int, datetime]
) -> list[Namesake]:
    """Workers of this name that were not shut down. Raises `NameTaken` for one that is alive."""
    span, found = live_span(lock.now), []
    for row in Worker.objects.filter(name=name, draining_at__isnull=True):
        live, moved = row.seen_at in span, seen.get(row.pk, row.seen_at) != row.seen_at
        process = worker_row.process_of(row)
        verdict = process_identity.judge(
            process, here, process_identity.started(row.pid), stale=not live and not moved
        )
        found.append(Namesake(row, standing(verdict, live=live, moved=moved)))
        if found[-1].standing is Standing.REFUSES:
            raise NameTaken(name, row.host, row.pid, (lock.now - row.seen_at).total_seconds())
    return found


def _watched(found: Iterable[Namesake]) -> list[Worker]:
    return [namesake.row for namesake in found if namesake.standing is Standing.WATCHED]


def _log_new(lock: SchedulerLock, found: Iterable[Namesake], seen: dict[int, datetime]) -> None:
    for row in _watched(found):
        if row.pk in seen:
            continue
        seen[row.pk] = row.seen_at
        gone_after = (row.seen_at - live_span(lock.now).since).total_seconds()
        logger.warning(
            "another worker called %s (pid %d on %s) had a heartbeat lately: starting once it has had none "
            "for %.0f more seconds, unless it has one",
            row.name, row.pid, row.host, gone_after,
        )  # fmt: skip


def end_leases_of(worker: Worker) -> None:
    """End the leases of a worker whose process is gone, and mark the worker as shut down."""
    cause = f"worker {worker} (pid {worker.pid}) is gone, and another of its name has started"
    lost = finish.lose(Lease.objects.filter(worker_id=worker.pk), lambda lease: cause)
    with hold_scheduler_lock() as lock:
        worker_row.deregister(lock, worker.pk)
    logger.warning("worker %s (pid %d) died holding %d leases", worker, worker.pid, len(lost))
    lost_leases.report(lost)
