"""Enqueues one call at a time in a transaction of the application's, in few statements: at its commit.

A loop that enqueues a thousand times in one transaction inserts once. Each call is checked at once; it is
inserted just before the transaction commits, so that both commit or neither. Until then it waits among
the functions that Django calls after the commit, since Django drops those that a savepoint took back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from queuemgr.base import transaction
from queuemgr.lifecycle.enqueue import ROWS_PER_STATEMENT, Unrouted, insert, on_routes


class Pending:
    """A new execution to be inserted before the transaction commits."""

    def __init__(self, new: Unrouted) -> None:
        self.new, self.is_inserted = new, False

    def __call__(self) -> None:
        """After the commit it is inserted; a test that never commits may call this instead."""
        if not self.is_inserted:
            _insert([self])


def enqueue_at_commit(new: Unrouted) -> None:
    """Insert this execution, unless its key exists: now, or before the transaction around it commits.

    Raises `NeverFits` and `QueueFull`; in a transaction the commit raises them, and nothing is committed.
    """
    connection = transaction.get_connection()
    pending = Pending(new)
    if connection.in_atomic_block:
        _insert_before_commit(connection)
        transaction.on_commit(pending, robust=True)
    else:
        _insert([pending])


def flush() -> None:
    """Insert now what waits for the commit of the transaction around this call."""
    hooks: list[Any] = transaction.get_connection().run_on_commit  # its stubs are of an older Django
    pending = [call for _, call, _ in hooks if isinstance(call, Pending)]
    if waiting := [one for one in pending if not one.is_inserted]:
        with transaction.atomic():
            _insert(waiting)


def _insert_before_commit(connection: BaseDatabaseWrapper) -> None:
    """Have each commit of this connection insert what waits for it; if that fails, nothing is committed."""
    if "commit" in vars(connection):
        return
    commit = connection.commit

    def flush_and_commit() -> None:
        try:
            flush()
        except BaseException:
            connection.rollback()
            raise
        commit()

    connection.commit = flush_and_commit  # type: ignore[method-assign]  # no hook before it


def _insert(pending: Iterable[Pending]) -> None:
    by_flow: dict[str, list[Pending]] = defaultdict(list)
    for one in pending:
        by_flow[one.new.row.flow].append(one)
    for several in by_flow.values():
        for start in range(0, len(several), ROWS_PER_STATEMENT):
            _insert_at_once(several[start : start + ROWS_PER_STATEMENT])


def _insert_at_once(pending: list[Pending]) -> None:
    rows = on_routes([one.new for one in pending])
    with transaction.atomic():
        insert(rows)
    for one in pending:
        one.is_inserted = True
