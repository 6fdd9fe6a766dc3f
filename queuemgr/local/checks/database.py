"""The database: whether it answers and is migrated, what stands between it and us, and its clock."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from queuemgr.base import session_problems, sql
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.unreachable import connect_directly
from queuemgr.flows.flow import CheckResult

SKEW_SECONDS = 5


def answers() -> Iterator[CheckResult]:
    if connection.vendor == "postgresql":
        connect_directly().close()  # says why not, and at once
        yield CheckResult("good", f"PostgreSQL {connection.pg_version // 10000} answers")  # type: ignore[attr-defined]  # PostgreSQL's connection has it
        return
    mode = sql.value("PRAGMA journal_mode")
    if mode == "wal":
        yield CheckResult("note", "SQLite (WAL): one machine only", "set DATABASE_URL for more than one")
    else:
        yield CheckResult("bad", f"SQLite in journal mode {mode}", "use project.database.sqlite() for WAL")


def pooling() -> Iterator[CheckResult]:
    if problem := session_problems.transaction_pooling():
        yield CheckResult("bad", *problem)


def scheduler_lock() -> Iterator[CheckResult]:
    if problem := session_problems.held_lock():
        yield CheckResult("bad", *problem)


def migrations() -> Iterator[CheckResult]:
    executor = MigrationExecutor(connection)
    missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    if missing:
        yield CheckResult("bad", f"{missing} migrations are not applied", "run `manage.py migrate`")
    else:
        yield CheckResult("good", "all migrations are applied")


def clock() -> Iterator[CheckResult]:
    skew = (timezone.now() - database_now()).total_seconds()
    if abs(skew) > SKEW_SECONDS:
        ahead = "ahead of" if skew > 0 else "behind"
        yield CheckResult("bad", f"this machine's clock is {abs(skew):.0f} s {ahead} the database's",
                      "correct it: what is enqueued here falls due by this clock")  # fmt: skip
    else:
        yield CheckResult("good", "this machine's clock agrees with the database's")
