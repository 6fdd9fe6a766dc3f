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
        self.new, self.is_inserted, self.key = new, False, new.row.key
        """The key of what was inserted, or of what there is instead."""

    def __call__(self) -> None:
        """After the commit it is inserted; a test that never commits may call this instead."""
        if not self.is_inserted:
            _insert([self])


class Inserted:
    """These were inserted: Django drops this, too, when the savepoint in which they were is taken back."""

    def __init__(self, pending: Iterable[Pending]) -> None:
        self.pending = frozenset(pending)

    def __call__(self) -> None:
        """Nothing remains to be done after the commit."""


def enqueue_at_commit(new: Unrouted) -> Pending:
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
    return pending


def flush() -> None:
    """Insert now what waits for the commit of the transaction around this call."""
    hooks: list[Any] = transaction.get_connection().run_on_commit  # its stubs are of an older Django
    calls = [call for _, call, _ in hooks]
    inserted = frozenset().union(*(call.pending for call in calls if isinstance(call, Inserted)))
    waiting = [call for call in calls if isinstance(call, Pending) and call not in inserted]
    if waiting:
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
        done = insert(rows)
    for one, row in zip(pending, rows, strict=True):
        one.is_inserted, one.key = True, done.instead.get(row.key, row.key)
    if transaction.get_connection().in_atomic_block:
        transaction.on_commit(Inserted(pending), robust=True)
