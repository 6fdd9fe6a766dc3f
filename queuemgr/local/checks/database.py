"""The database: whether it answers and is migrated, what stands between it and us, and its clock."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from queuemgr.base import database_problems, sql
from queuemgr.base.queue_database import connection
from queuemgr.base.setting_names import as_named_here
from queuemgr.base.unreachable import connect_directly
from queuemgr.flows.flow import CheckResult

FOR_MORE = "name PostgreSQL in DATABASE_URL for more than one"


def answers() -> Iterator[CheckResult]:
    if connection.vendor == "postgresql":
        connect_directly().close()  # says why not, and at once
        yield CheckResult("good", f"PostgreSQL {connection.pg_version // 10000} answers")  # type: ignore[attr-defined]  # PostgreSQL's connection has it
        return
    mode = sql.value("PRAGMA journal_mode")
    if mode == "wal":
        yield CheckResult("note", "SQLite (WAL): one machine only", as_named_here(FOR_MORE))
    else:
        yield CheckResult("bad", f"SQLite in journal mode {mode}", "leave journal_mode to the queue: WAL")


def pooling() -> Iterator[CheckResult]:
    if problem := database_problems.transaction_pooling():
        yield CheckResult("bad", *problem)


def scheduler_lock() -> Iterator[CheckResult]:
    if problem := database_problems.held_lock():
        yield CheckResult("bad", *problem)


def migrations() -> Iterator[CheckResult]:
    executor = MigrationExecutor(connection)
    missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    if missing:
        yield CheckResult("bad", f"{missing} migrations are not applied", "run `manage.py migrate`")
    elif newer := _newer(executor.loader):
        what = f"the database has migrations that this code does not know: {', '.join(newer)}"
        yield CheckResult("bad", what, "bring the code of this machine up to date, or migrate back")
    else:
        yield CheckResult("good", "all migrations are applied")


def _newer(loader: MigrationLoader) -> list[str]:
    """Applied migrations later than the newest of their app here; older ones may have been squashed."""
    newest = dict(loader.graph.leaf_nodes())
    return sorted(
        f"{app}.{name}"
        for app, name in loader.applied_migrations
        if name > newest.get(app, name) and (app, name) not in loader.disk_migrations
    )


def clock() -> Iterator[CheckResult]:
    if problem := database_problems.clock_off():
        yield CheckResult("bad", *problem)
    else:
        yield CheckResult("good", "this machine's clock agrees with the database's")
