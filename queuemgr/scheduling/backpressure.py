"""Caps on the executions waiting in a queue: a full queue refuses new work instead of growing.

Only new work is refused: an execution that continues with its next step may enter any queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from queuemgr.base import scheduler_lock, sql
from queuemgr.base.errors import QueueFull
from queuemgr.flows.flow import queue_name
from queuemgr.models import Execution, Queue

_DEPTH = """
    SELECT COUNT(*) FROM (
        SELECT 1 FROM queuemgr_route r JOIN queuemgr_execution e
            ON e.route_id = r.id AND e.state = 'waiting'
         WHERE r.phase = %s AND r.priority = %s LIMIT %s) AS waiting
"""
"""How many executions wait in a queue, counted up to its cap."""


class Admitted(NamedTuple):
    """Rows that fit their queues, in order up to the first that does not, and the refusal of that one."""

    rows: list[Execution]
    refusal: QueueFull | None = None


def admit_new(rows: Sequence[Execution]) -> Admitted:
    """Which of these rows fit their queues.

    Must run in the transaction that inserts them. Whoever enqueues into a capped queue holds the lock of that
    queue until its transaction ends, so that several cannot exceed the cap together. Decisions do not wait
    for it: the transaction may be one of the application, and last. Raises `SchedulerLockBusy` when the lock
    stays busy for `WAIT_MS`.
    """
    queues = _capped_queues(rows)
    if not queues:
        return Admitted(list(rows))
    scheduler_lock.hold_queues({queue.pk: queue.name for queue in queues})
    caps = {(queue.phase, queue.priority): queue.max_pending for queue in queues}
    same_keys = Execution.objects.filter(flow=rows[0].flow, key__in=[row.key for row in rows])
    existing = {*same_keys.values_list("key", flat=True), *_with_another_instead(rows)}
    depths: dict[tuple[str, int], int] = {}
    for queue, cap in caps.items():
        depths[queue] = sql.value(_DEPTH, [*queue, cap])
    taken: list[Execution] = []
    for row in rows:
        queue = (row.phase, row.priority)
        if queue in caps and row.key not in existing:
            if depths[queue] >= caps[queue]:
                return Admitted(taken, QueueFull(queue_name(*queue), depths[queue], caps[queue]))
            depths[queue] += 1
        taken.append(row)
    return Admitted(taken)


def _with_another_instead(rows: Sequence[Execution]) -> set[str]:
    """The keys of those whose unique key is held. The holders are locked, so that they hold it still when
    these rows are inserted."""
    unique_keys = [row.unique_key for row in rows if row.unique_key is not None]
    if not unique_keys:
        return set()
    holding = Execution.objects.holding(rows[0].flow, unique_keys, scheduler_lock.database_now())
    locked = holding.order_by("unique_key").select_for_update(no_key=True)
    held = set(locked.values_list("unique_key", flat=True))
    return {row.key for row in rows if row.unique_key in held}


def _capped_queues(rows: Sequence[Execution]) -> list[Queue]:
    names = {queue_name(row.phase, row.priority) for row in rows}
    return list(Queue.objects.filter(max_pending__gt=0, name__in=names))
