"""What only the database knows: read where Django checks databases, not by a plain `check`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.db import Error as DatabaseError

from queuemgr.base import database_problems, sql
from queuemgr.base.queue_database import alias, connection, vendor
from queuemgr.flows import callbacks
from queuemgr.flows.callbacks import CallbackFailed
from queuemgr.flows.flow import application_flows
from queuemgr.local.checks import fleet
from queuemgr.models import Worker
from queuemgr.system_checks.tasks import conflicts


def database(*, databases: Collection[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """The problems found; a database that does not answer is for who connects to it to report."""
    if alias() not in (databases or ()) or vendor() not in ("sqlite", "postgresql"):
        return []
    if not settings.USE_TZ:  # said by itself: no time read there can be compared
        return []
    if connection.in_atomic_block:  # a statement that fails would end somebody's transaction
        return []
    found: list[CheckMessage] = []
    for check in (_pooler, _isolation, _journal, *_of_tables()):
        with suppress(DatabaseError):
            found.extend(check())
    return found


def _of_tables() -> tuple[Callable[[], Iterator[CheckMessage]], ...]:
    """Those that read our tables, once there are any."""
    with suppress(DatabaseError):
        if Worker._meta.db_table in connection.introspection.table_names():
            return (_unserved, _brokers, _clock, _conflicts)
    return ()


def _pooler() -> Iterator[CheckMessage]:
    if problem := database_problems.transaction_pooling():
        yield Error(
            f"{problem.what}, and the settings do not say so: statements fail at random.",
            hint=f"Set DISABLE_SERVER_SIDE_CURSORS = True in DATABASES[{alias()!r}], or use session mode.",
            id="queuemgr.E060",
        )


def _isolation() -> Iterator[CheckMessage]:
    if vendor() != "postgresql":
        return
    level = sql.value("SHOW default_transaction_isolation")
    if level in ("repeatable read", "serializable") and not _states_isolation():
        yield Error(
            f"The server's default isolation level is {level}: work fails wherever others wrote.",
            hint=f"ALTER ROLE … SET default_transaction_isolation = 'read committed', or set the option "
            f"isolation_level of DATABASES[{alias()!r}] to IsolationLevel.READ_COMMITTED of psycopg.",
            id="queuemgr.E061",
        )


def _states_isolation() -> bool:
    return connection.settings_dict["OPTIONS"].get("isolation_level") is not None


def _journal() -> Iterator[CheckMessage]:
    if vendor() != "sqlite":
        return
    if (mode := sql.value("PRAGMA journal_mode")) not in ("wal", "memory"):
        yield Warning(
            f"SQLite keeps its journal in mode {mode} though WAL was asked for: readers and writers lock "
            "each other out.",
            hint="Put the file on a disk of this machine: network file systems cannot share such a log.",
            id="queuemgr.W062",
        )


def _unserved() -> Iterator[CheckMessage]:
    for result in fleet.workers():
        if result.level == "bad":
            yield Warning(f"{result.what}.", hint=result.remedy, id="queuemgr.W063")


def _brokers() -> Iterator[CheckMessage]:
    for result in fleet.brokers():
        yield Warning(f"{result.what}.", hint=result.remedy, id="queuemgr.W065")


def _clock() -> Iterator[CheckMessage]:
    if problem := database_problems.clock_off():
        yield Warning(f"{problem.what}.", hint=problem.remedy, id="queuemgr.W064")


def _conflicts() -> Iterator[CheckMessage]:
    """As those of tasks, of all flows: `limits()` of a flow may take its time."""
    stated = []
    for flow in application_flows():
        with suppress(CallbackFailed):  # `doctor` reports callbacks that fail
            stated.append((flow.name, callbacks.limits(flow, lambda name, values: None)))
    yield from conflicts(stated)
