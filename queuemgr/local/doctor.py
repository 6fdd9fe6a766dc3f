"""The checks of `manage.py doctor`: what is wrong with this installation, and what to do about it."""

from __future__ import annotations

import difflib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from queuemgr.base import sql
from queuemgr.base.config import COMMAND_LINE, SettingsGroup, queue_settings
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import callbacks
from queuemgr.flows.flow import CheckResult, Flow, all_flows, all_queues
from queuemgr.lifecycle import callback_failures
from queuemgr.lifecycle.publish import broker_errors
from queuemgr.local.local_fleet import PRIVATE_BROKER, check_broker
from queuemgr.models import Execution, Lease, PeriodicJob, Worker

SKEW_SECONDS = 5
FREE_BYTES = 1 << 30


def run_checks() -> Iterator[CheckResult]:
    """Run every check. One that fails to run is a result itself, and the others still run; if the database
    does not answer, the other checks that need it are left out."""
    flows = [_checks_of(flow) for flow in all_flows()]
    database_answers = True
    for check in (variables, data_directory, database, migrations, clock, broker, workers, periodic_jobs,
                  leases, failing_callbacks, *flows):  # fmt: skip
        if check in NEED_DATABASE and not database_answers:
            continue
        try:
            yield from check()
        except DatabaseError as error:
            database_answers = False
            name = getattr(check, "__name__", "check").replace("_", " ")
            yield CheckResult("bad", f"{name}: {str(error).splitlines()[0]}", "repair the database first")


def _checks_of(flow: Flow) -> Callable[[], Iterable[CheckResult]]:
    return lambda: callbacks.checks(flow)


def failing_callbacks() -> Iterator[CheckResult]:
    """Callbacks of flows that failed within a day, in whichever process; those of `checks` run here."""
    for failure in callback_failures.recent(database_now()):
        if failure.callback != "checks":
            times = f"{failure.times} times since {failure.since:%Y-%m-%d %H:%M} UTC"
            remedy = "correct the flow: the log has the traceback; the other flows go on"
            yield CheckResult("bad", f"{failure} ({times})", remedy)


def variables() -> Iterator[CheckResult]:
    """Environment variables named like settings that are none: a typo would go unnoticed."""
    known = {config.variable(name) for config in _groups(SettingsGroup) for name in config.model_fields}
    known |= {COMMAND_LINE, "SLUICE_LOG_LEVEL"}
    for name in sorted(os.environ):
        if name.startswith("SLUICE_") and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            remedy = f"did you mean {near[0]}?" if near else "see docs/configuration.md"
            yield CheckResult("note", f"{name} is set, but there is no such setting", remedy)


def _groups(base: type[SettingsGroup]) -> Iterator[type[SettingsGroup]]:
    for group in base.__subclasses__():
        yield group
        yield from _groups(group)


def data_directory() -> Iterator[CheckResult]:
    folder = Path(settings.SLUICE_DATA_DIR)
    if not os.access(folder, os.W_OK):
        yield CheckResult("bad", f"{folder} is not writable", "set SLUICE_DATA_DIR to a directory that is")
        return
    free = shutil.disk_usage(folder).free
    what, remedy = f"{folder} is writable, {free >> 20} MiB free", "free some space: files are stored there"
    yield CheckResult("good", what) if free > FREE_BYTES else CheckResult("bad", what, remedy)


def database() -> Iterator[CheckResult]:
    sql.value("SELECT 1")
    if connection.vendor == "postgresql":
        yield CheckResult("good", f"PostgreSQL {connection.pg_version // 10000} answers")  # type: ignore[attr-defined]  # PostgreSQL's connection has it
        return
    mode = sql.value("PRAGMA journal_mode")
    if mode == "wal":
        yield CheckResult("note", "SQLite (WAL): one machine only", "set DATABASE_URL for more than one")
    else:
        yield CheckResult("bad", f"SQLite in journal mode {mode}", "use project.settings.sqlite() for WAL")


def migrations() -> Iterator[CheckResult]:
    executor = MigrationExecutor(connection)
    missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    if missing:
        yield CheckResult("bad", f"{missing} migrations are not applied", "run `manage.py migrate`")
    else:
        yield CheckResult("good", "all migrations are applied")


def clock() -> Iterator[CheckResult]:
    skew = abs((database_now() - timezone.now()).total_seconds())
    if skew > SKEW_SECONDS:
        yield CheckResult("note", f"this machine's clock is {skew:.0f} s off the database's",
                      "leases use the database's clock; correct this one for comparable logs")  # fmt: skip
    else:
        yield CheckResult("good", "this machine's clock agrees with the database's")


def broker() -> Iterator[CheckResult]:
    private = Path(settings.SLUICE_DATA_DIR) / PRIVATE_BROKER
    if not os.environ.get("BROKER_URL") and not private.exists():
        yield CheckResult("note", "no BROKER_URL: `up` and `queue run` start a private broker",
                      "set BROKER_URL for workers started by hand")  # fmt: skip
        return
    try:
        check_broker()
        yield CheckResult("good", f"broker {current_app.connection_for_write().as_uri()} answers")
        yield from _eviction()
    except ConfigurationError as error:
        what, _, remedy = str(error).partition("): ")
        yield CheckResult("bad", f"{what})", f"{remedy}; work waits in the database meanwhile")


def _eviction() -> Iterator[CheckResult]:
    """Whether Redis drops messages when it is full; a server that does not say is skipped."""
    with current_app.connection_for_write() as link:
        if link.transport.driver_type != "redis":
            return
        try:
            channel: Any = link.default_channel
            policy = channel.client.info("memory").get("maxmemory_policy")
        except broker_errors():
            return
    if policy not in (None, "noeviction"):
        yield CheckResult("note", f"the broker drops messages when it is full: maxmemory-policy {policy}",
                      "set it to noeviction; a dropped message is sent again, but late")  # fmt: skip


def workers() -> Iterator[CheckResult]:
    alive = Worker.objects.available(database_now())
    served = {queue for queues in alive.values_list("queues", flat=True) for queue in queues}
    idle = [queue for queue in all_queues() if queue not in served]
    if not served:
        yield CheckResult("note", "no worker is alive", "start `manage.py up`, `queue run` or `worker`")
    elif idle:
        yield CheckResult("bad", f"no live worker consumes {', '.join(idle)}", "start one with these in -Q")
    else:
        yield CheckResult("good", f"{len(alive)} workers alive, every queue consumed")


def periodic_jobs() -> Iterator[CheckResult]:
    last = PeriodicJob.objects.filter(name="tick").values_list("ran_at", flat=True).first()
    every = timedelta(seconds=queue_settings().poll_interval)
    if last is None or not Worker.objects.exists():
        return
    late = database_now() - last
    if late > 6 * every:
        yield CheckResult("note", f"the last tick was {late.total_seconds():.0f} s ago",
                      "start `celery -A project beat` and a worker on the queue housekeeping")  # fmt: skip
    else:
        yield CheckResult("good", "periodic jobs run on time")


def leases() -> Iterator[CheckResult]:
    expired = Lease.objects.expired(database_now() - timedelta(seconds=60)).count()
    if expired:
        yield CheckResult("bad", f"{expired} leases expired over a minute ago and still exist",
                      "the tick does not run: see the line on periodic jobs")  # fmt: skip
    waiting = Execution.objects.waiting().exists()
    if waiting and not expired:
        yield CheckResult("good", "work is waiting; `queue stats` shows for what")


NEED_DATABASE = (migrations, clock, workers, periodic_jobs, leases, failing_callbacks)
"""Checks that are left out when the database does not answer."""
