"""The settings of the queue's database: whether it is of a kind that works, and stated so that it can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from django.core.checks import CheckMessage, Error, Warning
from django.db import connections

from queuemgr.base import sqlite_options
from queuemgr.base.queue_database import alias, vendor

LEAST_TIMEOUT = 5
"""Seconds a statement has to wait for SQLite's write lock: other processes hold it for one transaction."""

TO_PASTE = (
    'Leave transaction_mode, timeout and init_command out of OPTIONS: the queue adds them. Or state\n'
    '"OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE",\n'
    '            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"}'
)  # fmt: skip


def database(**kwargs: Any) -> list[CheckMessage]:
    if alias() not in connections.settings:
        return [_no_such_alias()]
    stated = connections.settings[alias()]
    by_kind = {"sqlite": _sqlite, "postgresql": _postgresql}
    if (kind := vendor()) not in by_kind:
        return [_unknown_kind(kind)]
    return [*by_kind[kind](stated, stated.get("OPTIONS") or {}), *_autocommit(stated)]


def _no_such_alias() -> CheckMessage:
    return Error(
        f"SLUICE_DATABASE is {alias()!r}, which is no alias in DATABASES.",
        hint=f"Write one of {', '.join(sorted(connections.settings))}.",
        id="queuemgr.E010",
    )


def _unknown_kind(kind: str) -> CheckMessage:
    return Error(
        f"The database {alias()!r} is {kind}: the queue works on PostgreSQL and SQLite.",
        hint="Add a PostgreSQL database to DATABASES and name its alias in SLUICE_DATABASE; the other tables "
        "stay where they are. For one machine a SQLite file is enough.",
        id="queuemgr.E011",
    )


def _autocommit(stated: Mapping[str, Any]) -> Iterator[CheckMessage]:
    if not stated.get("AUTOCOMMIT", True):
        yield Error(
            f"AUTOCOMMIT is off for the database {alias()!r}: nothing the queue writes would be committed.",
            hint="Remove AUTOCOMMIT from DATABASES; ATOMIC_REQUESTS makes a transaction of each request.",
            id="queuemgr.E012",
        )


def _sqlite(stated: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[CheckMessage]:
    mode = str(options.get("transaction_mode") or "DEFERRED").upper()
    if mode not in ("IMMEDIATE", "EXCLUSIVE"):
        yield Error(
            f"Transactions of SQLite are stated to be {mode}: one that reads before it writes fails with "
            "'database is locked' where another process writes meanwhile.",
            hint=TO_PASTE,
            id="queuemgr.E013",
        )
    if (journal := sqlite_options.journal_mode(options)) not in ("", "wal"):
        yield Error(
            f"SQLite's journal mode is stated as {journal.upper()}: readers and writers lock each other out.",
            hint=TO_PASTE,
            id="queuemgr.E014",
        )
    timeout = options.get("timeout")
    if isinstance(timeout, int | float) and timeout < LEAST_TIMEOUT:
        yield Warning(
            f"SQLite waits {timeout:g} s for a lock: beside workers some statements fail.",
            hint=f"Leave timeout out of OPTIONS (the queue states 30), or state {LEAST_TIMEOUT} at least.",
            id="queuemgr.W015",
        )
    if stated.get("NAME") == ":memory:":
        yield Warning(
            "The database is in memory: each process has its own, and no worker sees what is enqueued.",
            hint="Name a file. Tests may use one in memory.",
            id="queuemgr.W016",
        )


def _postgresql(stated: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[CheckMessage]:
    if level := stated_isolation(options):
        yield Error(
            f"Transactions of PostgreSQL are stated to be {level}: they would fail where others have written "
            "what they read, as decisions of the queue do all the time.",
            hint="Remove isolation_level (and default_transaction_isolation) from OPTIONS: the queue needs "
            "read committed, which is PostgreSQL's default. Code of yours that needs more can say "
            "SET TRANSACTION ISOLATION LEVEL at the start of its own transaction, or use another alias.",
            id="queuemgr.E017",
        )


HIGHER = ("REPEATABLE READ", "SERIALIZABLE")


def stated_isolation(options: Mapping[str, Any]) -> str:
    """The isolation level these options state, if it is above read committed; else empty."""
    level: Any = options.get("isolation_level")
    with suppress(ImportError, ValueError, TypeError):
        from django.db.backends.postgresql.psycopg_any import IsolationLevel

        level = IsolationLevel(level)
    words = [getattr(level, "name", "").replace("_", " ")]
    text = str(options.get("options") or "").lower().replace("\\ ", " ")
    if "default_transaction_isolation" in text:
        words.append(text.rpartition("default_transaction_isolation")[2].strip(" =").upper())
    return next((high for high in HIGHER if any(each.startswith(high) for each in words)), "")
