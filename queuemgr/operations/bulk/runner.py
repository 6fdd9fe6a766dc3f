"""Bulk actions in the background: a slice of work at a time, in turn, on the housekeeping queue.

A message is a hint here too. Whoever takes one works for `SLICE_SECONDS` and sends the next; when it is
killed, the tick finds running actions and sends one. An action whose rate lets nothing through yet
waits for the tick as well, so no worker sleeps for it.
"""

from __future__ import annotations

import logging
import time

from django.db import DatabaseError

from queuemgr.base.redaction import clean, describe_error
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import ActionState, BulkAction
from queuemgr.operations import bulk
from queuemgr.operations.bulk import audit as bulk_record
from queuemgr.operations.bulk import batch as bulk_step
from queuemgr.operations.bulk import rate as bulk_pace
from queuemgr.operations.bulk.batch import BatchResult
from queuemgr.operations.controls import Actor

logger = logging.getLogger(__name__)

SLICE_SECONDS = 2.0
"""How long one message's work lasts: the tick, which shares the worker, waits no longer."""


def ask_if_due() -> None:
    """Send one if some action could go on now: called by the tick."""
    if due():
        bulk.ask()


def due() -> list[int]:
    """The running actions whose rate lets them change a row now, the oldest first."""
    may = BulkAction.objects.running().filter(due_at__lte=database_now())
    return list(may.order_by("pk").values_list("pk", flat=True))


def run(seconds: float = SLICE_SECONDS) -> int:
    """Give every action that is due a batch in turn, for so long; returns how many rows changed."""
    until, changed, rows = time.monotonic() + seconds, 0, bulk_step.ROWS
    while time.monotonic() < until and (some := due()):
        for action_id in some:
            came = _one_batch(action_id, rows)
            if came.changed == rows:
                rows = bulk_pace.fitting(rows, came.held)
            changed += came.changed
            _leave_the_lock(came.held)
    return changed


def _leave_the_lock(held: float) -> None:
    """Let others have it at least as long: SQLite hands its lock to nobody in particular."""
    time.sleep(min(held, 1.0))


def _one_batch(action_id: int, rows: int) -> BatchResult:
    """One batch, and what came of it; an action that cannot be carried out ends, and does not stop the
    others."""
    try:
        return bulk_step.step(action_id, rows)
    except DatabaseError as error:
        logger.warning(
            "bulk action #%s: %s; it goes on with the next tick", action_id, describe_error(error)
        )
        time.sleep(0.1)
    except Exception as error:
        logger.exception("bulk action #%s cannot go on", action_id)
        _give_up(action_id, clean(describe_error(error)))
    return BatchResult()


def _give_up(action_id: int, problem: str) -> None:
    ended = BulkAction.objects.running().filter(pk=action_id).update(
        state=ActionState.FAILED, finished_at=database_now(), problem=problem
    )  # fmt: skip
    if ended:
        action = bulk.found(action_id)
        by = Actor(action.actor, action.source, action.reason)
        bulk_record.record_end(action, by, "end bulk action")
