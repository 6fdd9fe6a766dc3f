"""Bulk actions in the background: a slice of work at a time, in turn, on the housekeeping queue.

A message is only a hint. The worker that takes one works for `SLICE_SECONDS` and sends the next; when it is
killed, the tick finds running actions and sends one. An action whose rate allows nothing yet waits for the
tick as well, so no worker sleeps for it.
"""

from __future__ import annotations

import logging
import time

from django.db import DatabaseError

from queuemgr.base.errors import StillStoring
from queuemgr.base.redaction import clean, describe_error
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import ActionState, BulkAction
from queuemgr.operations import bulk
from queuemgr.operations.bulk import audit, chunk, rate
from queuemgr.operations.bulk.chunk import ChunkResult

logger = logging.getLogger(__name__)

SLICE_SECONDS = 2.0
"""How long the work of one message lasts: the tick, which shares the worker, waits no longer."""

PAUSE = 0.05
"""Seconds after a chunk that could not be done, since somebody held a row it needs."""


def notify_if_due() -> None:
    """Send a message if some action could continue now; called by the tick."""
    if due():
        bulk.notify()


def due() -> list[int]:
    """The ids of running actions whose rate allows a change now, the oldest first."""
    may = BulkAction.objects.running().filter(due_at__lte=database_now())
    return list(may.order_by("pk").values_list("pk", flat=True))


def run(seconds: float = SLICE_SECONDS) -> int:
    """Do chunks of all due actions in turn, for so long; returns how many rows changed."""
    until, changed, rows = time.monotonic() + seconds, 0, chunk.ROWS
    while time.monotonic() < until and (some := due()):
        for action_id in some:
            result = _one_chunk(action_id, rows)
            if result.changed == rows:
                rows = rate.chunk_size(rows, result.held)
            changed += result.changed
            # SQLite hands its lock to nobody in particular: let others have it at least as long.
            time.sleep(min(result.held, 1.0) or PAUSE)
    return changed


def _one_chunk(action_id: int, rows: int) -> ChunkResult:
    """Do one chunk; an action that fails ends, and does not stop the others."""
    try:
        return chunk.change_next(action_id, rows)
    except (DatabaseError, StillStoring) as error:
        logger.warning(
            "bulk action #%s: %s; it continues with the next tick", action_id, describe_error(error)
        )
        time.sleep(0.1)
    except Exception as error:
        logger.exception("bulk action #%s failed", action_id)
        problem, now = clean(describe_error(error)), database_now()
        running = BulkAction.objects.running().filter(pk=action_id)
        if running.update(state=ActionState.FAILED, finished_at=now, problem=problem):
            action = bulk.get_or_error(action_id)
            audit.record_end(action, audit.starter_of(action), "end bulk action")
    return ChunkResult()
