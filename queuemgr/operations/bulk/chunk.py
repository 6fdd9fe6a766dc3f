"""One chunk of a bulk action: a short transaction under the scheduler lock that also moves the cursor.

The next rows are looked up before the lock is taken; under it the filter is applied again to those few,
they are changed, and the cursor moves. A worker killed anywhere in it has done all of the chunk or nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile

from django.db import InterfaceError, OperationalError

from queuemgr.base import scheduler_lock, sql, transaction
from queuemgr.base.errors import StillStoring
from queuemgr.base.queue_database import connection
from queuemgr.base.redaction import clean, describe_error
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle import lease_locks
from queuemgr.models import ActionState, BulkAction, Execution, ExecutionQuerySet
from queuemgr.operations import bulk, placing, rights
from queuemgr.operations.bulk import audit, audit_reader, rate
from queuemgr.operations.bulk.actions import action_named
from queuemgr.operations.bulk.audit import ByAction
from queuemgr.operations.placing import Answers

logger = logging.getLogger(__name__)

ROWS = 100
"""Rows in one chunk, unless the runner has seen how long they take (see `rate.chunk_size`)."""

PROBLEMS_SHOWN = 2000
"""Characters of errors an action stores."""


@dataclass(frozen=True)
class ChunkResult:
    """Rows changed, left alone, and those the action could not change; `held`: seconds the scheduler lock
    was held."""

    changed: int = 0
    skipped: int = 0
    failed: int = 0
    problem: str = ""
    held: float = 0.0

    def __add__(self, other: ChunkResult) -> ChunkResult:
        return ChunkResult(
            self.changed + other.changed,
            self.skipped + other.skipped,
            self.failed + other.failed,
            self.problem or other.problem,
        )


def change_next(action_id: int, rows: int = ROWS) -> ChunkResult:
    """Do the next chunk of a running action, as far as its rate allows; nothing for any other. It stops the
    action if whoever started it may not do that any more.

    Two at once do no harm: the second finds the cursor moved, and does nothing.
    """
    action, now = bulk.get_or_error(action_id), database_now()
    at_most = rate.may_change(action.per_minute, action.due_at or now, now, rows)
    if action.state != ActionState.RUNNING or not at_most:
        return ChunkResult()
    permissions = action_named(action.verb).permissions
    if why := rights.refusal(audit.starter_of(action), permissions, bulk.SCOPE):
        bulk.stop_for(action_id, why)
        return ChunkResult()
    ids = _next_ids(action, at_most)
    is_last = len(ids) < at_most
    question = action_named(action.verb).question
    known = placing.ask(question(action.arguments, ids), ids) if question else {}
    with transaction.atomic():
        try:
            lease_locks.lock_of(ids)  # before the scheduler lock: it may wait for a store
        except StillStoring:
            return ChunkResult()  # tried again with the next chunk
        lock = scheduler_lock.acquire()
        began = time.monotonic()
        mine = _locked_if_free(action_id)
        if mine is None or mine.state != ActionState.RUNNING or mine.cursor != action.cursor:
            return ChunkResult()
        free = _before_the_first(lease_locks.lock_free_of(ids), ids)
        if ids and not free:
            return ChunkResult()  # granted while the lock was waited for, and storing: as above
        result = _act(mine, free, known) if free else ChunkResult()
        _advance(mine, result, lock.now, mine.up_to if is_last and free == ids else free[-1])
    return replace(result, held=time.monotonic() - began)


def _locked_if_free(action_id: int) -> BulkAction | None:
    """None while somebody holds its row, who may be stopping it in a longer transaction: under the scheduler
    lock nobody waits for that."""
    skips = connection.features.has_select_for_update_skip_locked
    return BulkAction.objects.select_for_update(skip_locked=skips).filter(pk=action_id).first()


def _before_the_first(busy: Collection[int], ids: Sequence[int]) -> Sequence[int]:
    """The ids before the first that is busy; the next chunk begins with that one."""
    return list(takewhile(lambda pk: pk not in busy, ids))


def _next_ids(action: BulkAction, most: int) -> list[int]:
    if action_named(action.verb).from_audit_log:
        return audit_reader.ids_after(action.arguments["undoes"], action.cursor, most)
    return _first_ids(bulk.eligible(action), most)


def _first_ids(executions: ExecutionQuerySet, most: int) -> list[int]:
    """The first ids of these, ascending, found by walking along the ids.

    SQLite keeps no statistics of indexes, and would sort all failed rows for every chunk.
    """
    statement, parameters = (
        executions.order_by("pk").values_list("pk", flat=True)[:most].query.sql_with_params()
    )
    if connection.vendor == "sqlite":
        table = f'FROM "{Execution._meta.db_table}"'
        statement = statement.replace(table, f"{table} NOT INDEXED", 1)
    return sql.column(statement, parameters)


def _act(action: BulkAction, ids: Sequence[int], known: Answers) -> ChunkResult:
    """Change those of the chunk that still match; the others were changed since they were looked up."""
    still = _first_ids(bulk.eligible(action).filter(pk__in=ids), len(ids))
    gone = ChunkResult(skipped=len(ids) - len(still))
    return gone + _change(action, still, known) if still else gone


def _change(action: BulkAction, ids: Sequence[int], known: Answers) -> ChunkResult:
    """Change all of these at once or, when one of them fails, each half by itself."""
    try:
        return _apply(action, ids, known)
    except (OperationalError, InterfaceError, StillStoring):
        raise  # the database is away or busy: the chunk is done again later
    except Exception as error:
        if len(ids) == 1:
            logger.warning("bulk action #%s: execution %s: %s", action.pk, ids[0], describe_error(error))
            return ChunkResult(failed=1, problem=clean(f"execution {ids[0]}: {describe_error(error)}"))
    half = len(ids) // 2
    return _change(action, ids[:half], known) + _change(action, ids[half:], known)


def _apply(action: BulkAction, ids: Sequence[int], known: Answers) -> ChunkResult:
    by = ByAction(action.actor, action.source, action.reason)
    with transaction.atomic():
        some = Execution.objects.filter(pk__in=ids).only("pk")
        changed = action_named(action.verb).act(some, action.arguments, by, known)
        audit.record_chunk(action, by, changed)
    return ChunkResult(changed=changed, skipped=len(ids) - changed)


def _advance(action: BulkAction, result: ChunkResult, now: datetime, cursor: int) -> None:
    """Count the chunk and move the cursor; at the end, matched rows not reached have changed before."""
    action.cursor = cursor
    action.changed += result.changed
    action.skipped += result.skipped
    action.failed += result.failed
    action.problem = "\n".join(filter(None, (action.problem, result.problem)))[:PROBLEMS_SHOWN]
    action.due_at = rate.clock_after(action.per_minute, action.due_at or now, now, result.changed)
    if cursor == action.up_to:
        action.state = ActionState.DONE
        action.finished_at = scheduler_lock.database_now()  # not before what the chunk ended
        unreached = action.matched - action.changed - action.failed
        action.skipped = max(action.skipped, unreached)
        audit.record_end(action, audit.starter_of(action), "end bulk action")
    action.save()
