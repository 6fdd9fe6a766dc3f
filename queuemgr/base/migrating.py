"""Migrations applied by whichever process comes first; the others wait, and find nothing left to do."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.executor import MigrationExecutor

from queuemgr.base.data_directory import make_data_directory
from queuemgr.base.queue_database import alias, connection
from queuemgr.base.unreachable import connect_directly

MIGRATION_LOCK = 0x51_01_CE_04
LOOK_SECONDS = 0.2
"""How often a process that waits looks whether the other has ended."""


def migrate(**options: Any) -> None:
    """Apply what is due, in the default database and in the queue's, with these options of `migrate`."""
    with _only_here():
        for name in dict.fromkeys((DEFAULT_DB_ALIAS, alias())):
            if _are_due(name):
                call_command("migrate", database=name, interactive=False, **options)


def _are_due(name: str) -> bool:
    executor = MigrationExecutor(connections[name])
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


@contextmanager
def _only_here() -> Iterator[None]:
    """Wait until no other process is in this block."""
    with _locked_in_postgres() if connection.vendor == "postgresql" else _locked_on_this_machine():
        yield


@contextmanager
def _locked_in_postgres() -> Iterator[None]:
    """A lock of a transaction beside the migrations, which is the only kind that a pooler keeps.

    Whoever waits asks again and again, since a statement that waits has a snapshot, and an index that is
    built concurrently would wait for that.
    """
    with closing(connect_directly()) as beside:
        while not _locks(beside):
            beside.execute("ROLLBACK")
            time.sleep(LOOK_SECONDS)
        yield


def _locks(beside: Any) -> bool:
    beside.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
    beside.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    ((got,),) = beside.execute("SELECT pg_try_advisory_xact_lock(%s::bigint)", [MIGRATION_LOCK])
    return bool(got)


@contextmanager
def _locked_on_this_machine() -> Iterator[None]:
    """SQLite's file has no other users than the processes of this machine."""
    with (make_data_directory() / "migrate.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
