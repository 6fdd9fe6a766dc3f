"""Using a database connection: holding it only while it is needed, and reading at one point in time."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from queuemgr.base import fork_gate, process_state, sql
from queuemgr.base.queue_database import connection


class _Uses(threading.local):
    """How many `database` blocks this thread is in."""

    depth = 0


_uses = _Uses()
process_state.register(lambda: vars(_uses).clear(), in_forked_child=True)


@contextmanager
def database() -> Iterator[None]:
    """Close this thread's connections when the block ends, so that it waits without holding one.

    Blocks nest: an inner one leaves the connection to the outer one.
    """
    if not _uses.depth:
        fork_gate.enter()
    _uses.depth += 1
    try:
        yield
    finally:
        _uses.depth = max(0, _uses.depth - 1)  # a child forked in the block began again at 0
        if not _uses.depth:
            try:
                close_connections()
            finally:
                fork_gate.leave()


@contextmanager
def left_to_the_caller() -> Iterator[None]:
    """Around code of an application that is called rather than run by a worker: the connections of this
    thread, and a transaction such as that of a test, are its caller's. None is closed or ended."""
    _uses.depth += 1
    try:
        yield
    finally:
        _uses.depth = max(0, _uses.depth - 1)


@contextmanager
def one_turn() -> Iterator[None]:
    """Around each turn of a thread that uses the database again and again: its connection stays open between
    the turns, but for the parent of a pool that uses SQLite."""
    with database() if fork_gate.forks_often() else fork_gate.passed():
        yield


def in_transaction() -> bool:
    """Whether this thread has begun a transaction, on any of its connections, which others may wait for."""
    opened = connections.all(initialized_only=True)
    return any(each.in_atomic_block or not each.get_autocommit() for each in opened if each.connection)


def close_connections() -> None:
    """Close this thread's connections, but none in a transaction: that is not ours to end."""
    with fork_gate.passed():  # as SQLite's last connection is closed, its log is written to the database
        for each in connections.all(initialized_only=True):
            if not each.in_atomic_block:
                each.close()


def reset_session(session: Any, role: str = "") -> None:
    """Leave nothing of what an application set on this session of psycopg for the next who gets it: settings,
    a role, advisory locks, cursors, temporary tables. Prepared statements stay, since psycopg counts on them.
    Django sets the `role` of its option `assume_role` when a session begins only, so it is set again.

    For `psycopg_pool`, which drops a session when this raises, and otherwise takes it back.
    """
    results = [session.pgconn.exec_(_RESET)]
    if role:
        results.append(session.pgconn.exec_params(b"SELECT set_config('role', $1, false)", [role.encode()]))
    for result in results:
        if result.error_message:
            raise InterfaceError(result.error_message.decode(errors="replace"))


_RESET = (
    b"CLOSE ALL; UNLISTEN *; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DISCARD TEMP; DISCARD SEQUENCES; "
    b"SET TIME ZONE 'UTC'; SET default_transaction_isolation = 'read committed'; "
    b"SELECT pg_advisory_unlock_all()"
)
"""As DISCARD ALL, in one round trip; the zone is that of Django's connections, and the isolation that which
statements outside of transactions need, too."""


def open_blocks() -> int:
    """How many `database` blocks this thread is in."""
    return _uses.depth


def _forget_blocks(outer: int) -> None:
    """Leave the blocks of this thread that were entered inside of these and never left."""
    left, _uses.depth = _uses.depth, outer
    if left and not outer:
        fork_gate.leave()


def discard_connections(blocks: int) -> bool:
    """Close this thread's connections after application code ran, whatever state it left them in.

    `blocks` is what `open_blocks` said before it ran: blocks it entered and never left are forgotten, and
    inside of one that was open before, the connections are that block's to close. Returns whether a
    transaction was left open; it is rolled back.
    """
    _forget_blocks(blocks)
    if blocks:
        return False
    left_open = [each for each in connections.all(initialized_only=True) if _is_in_transaction(each)]
    for each in left_open:
        _forget_transaction(each)
    close_connections()
    return bool(left_open)


def _is_in_transaction(each: BaseDatabaseWrapper) -> bool:
    """Whether it is in a transaction, by Django's books or by the driver's: a raw BEGIN is in these only."""
    if each.in_atomic_block or each.connection is None:
        return each.in_atomic_block
    return _status(each) != "IDLE"


def _forget_transaction(each: BaseDatabaseWrapper) -> None:
    """Leave the atomic blocks that were entered and never left, so that the connection can be closed."""
    with suppress(Exception):  # it may be broken; closing it ends the transaction in any case
        each.connection.rollback()
    each.in_atomic_block = each.needs_rollback = each.closed_in_transaction = False
    each.savepoint_ids, each.atomic_blocks, each.run_on_commit = [], [], []
    each.commit_on_exit = True


class _State(NamedTuple):
    """A connection's transactions: how many blocks it is in, whether by Django's books it can only be rolled
    back and commits by itself, and how it is by the driver's."""

    depth: int
    needs_rollback: bool
    autocommit: bool
    status: str


class Held(NamedTuple):
    """What a thread holds of its connections: the `database` blocks it is in, and the state of each."""

    blocks: int
    states: Mapping[str, _State]


def held() -> Held:
    """What this thread holds now; for `end_what_was_left` after code of an application has run."""
    return Held(_uses.depth, _states(connections.all(initialized_only=True)))


def end_what_was_left(before: Held) -> str:
    """Roll back the transactions of this thread that were begun since `before` and never ended, and forget
    the `database` blocks that were entered and never left.

    Returns what was done to transactions, as a sentence without a subject; empty if nothing was.
    """
    _forget_blocks(before.blocks)
    open_now = connections.all(initialized_only=True)
    if (now := _states(open_now)) == before.states:
        return ""
    was = {each.alias: before.states.get(each.alias, _at_rest(each)) for each in open_now}
    if any([_unwind(each, was[each.alias]) for each in open_now]):
        return LEFT_OPEN
    return next(filter(None, (_harm_done(was[alias], state) for alias, state in now.items())), "")


def _states(wrappers: Iterable[BaseDatabaseWrapper]) -> dict[str, _State]:
    return {each.alias: _state(each) for each in wrappers}


def _state(each: BaseDatabaseWrapper) -> _State:
    if each.connection is None and not each.atomic_blocks:
        return _at_rest(each)
    return _State(len(each.atomic_blocks), each.needs_rollback, each.autocommit, _status(each))


def _at_rest(each: BaseDatabaseWrapper) -> _State:
    return _State(0, False, each.settings_dict["AUTOCOMMIT"], "IDLE")


def _harm_done(was: _State, now: _State) -> str:
    """What the caller's transaction suffered, if it was in one that could be committed."""
    if now.depth < was.depth:
        return ENDED
    return "" if _harm(was) else _harm(now)


LEFT_OPEN = "left a transaction open, whose writes were rolled back: end it there"
ENDED = "ended the transaction it was called in: leave COMMIT, ROLLBACK and close() to its caller"
DOOMED = (
    "left the transaction it was called in fit only to be rolled back, as by an error of the database that "
    "it caught: let it put what may fail into a transaction.atomic() of its own, and catch the error outside"
)


def can_commit(each: BaseDatabaseWrapper) -> bool:
    """Whether this connection is in a transaction that can be committed."""
    return not _harm(_state(each))


def _harm(state: _State) -> str:
    """What keeps a transaction, if the connection is in one, from being committed."""
    if state.status == "INERROR" or (state.status == "INTRANS" and state.needs_rollback):
        return DOOMED
    return "" if state.status == "INTRANS" else ENDED


def _status(each: BaseDatabaseWrapper) -> str:
    """The state of the transaction by the driver's books, in the words of psycopg."""
    driver: Any = each.connection
    if driver is None or each.closed_in_transaction:
        return "IDLE"
    if each.vendor == "postgresql":
        return "IDLE" if driver.closed else str(driver.info.transaction_status.name)
    return "INTRANS" if getattr(driver, "in_transaction", False) else "IDLE"


def _unwind(each: BaseDatabaseWrapper, was: _State) -> bool:
    left = len(each.atomic_blocks) > was.depth
    while len(each.atomic_blocks) > was.depth:
        abandoned = InterfaceError("the block was entered and never left")
        with suppress(Exception):  # the connection may be anything by now
            each.atomic_blocks[-1].__exit__(InterfaceError, abandoned, None)
    if _is_begun_by_hand(each, _state(each)) and not _is_begun_by_hand(each, was) and not was.depth:
        with suppress(DatabaseError):
            each.rollback()
            each.set_autocommit(each.settings_dict["AUTOCOMMIT"])
        each.close()
        return True
    return left


def _is_begun_by_hand(each: BaseDatabaseWrapper, state: _State) -> bool:
    """Whether it is in a transaction that no atomic block began: by `set_autocommit(False)` or a BEGIN."""
    return not state.depth and (
        state.autocommit != each.settings_dict["AUTOCOMMIT"] or state.status != "IDLE"
    )


def break_off(wrappers: Iterable[BaseDatabaseWrapper]) -> None:
    """Roll back and close connections of a thread that does not continue, from another one: on SQLite nobody
    else writes while it is in a transaction. PostgreSQL does so when the process ends."""
    for each in wrappers:
        if each.vendor == "sqlite" and each.connection is not None:
            with suppress(Exception):
                each.connection.rollback()
                each.connection.close()


_BEGIN = {"postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "sqlite": "BEGIN DEFERRED"}
"""The project's SQLite transactions begin by taking the write lock, which a reader must not hold."""


@contextmanager
def consistent_read() -> Iterator[None]:
    """Run the block's reads in one read-only snapshot; inside a transaction, use that transaction's."""
    if connection.in_atomic_block:
        yield
        return
    sql.run(_BEGIN[connection.vendor])
    try:
        yield
    finally:
        sql.run("ROLLBACK")
