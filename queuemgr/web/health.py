"""Health checks. Liveness depends on nothing else, so that no outage elsewhere restarts the process;
readiness checks database, migrations and broker at once, with one timeout; progress is in `stall_check.py`.

Requests share a check: one thread a check, however many ask (`shared_check.py`). Problems are named
without addresses or secrets: the pages need no login.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial

from celery import current_app
from django.db import Error as DatabaseError
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse

from queuemgr.base import process_state, sql
from queuemgr.base.config import queue_settings
from queuemgr.base.queue_database import connection
from queuemgr.base.setting_names import as_named_here
from queuemgr.lifecycle.publish import broker_errors
from queuemgr.reporting import periodic_jobs, stall_check
from queuemgr.web.shared_check import SharedCheck, answers

logger = logging.getLogger(__name__)

CHECK_SECONDS = 2.5
"""Seconds after which a check has failed; all of them run at once."""

BROKER_SECONDS = 2
"""Connection timeout of the broker check, in seconds."""


def healthz(request: HttpRequest) -> JsonResponse:
    """200 when the database answers, 503 when it does not."""
    if problem := _answers("database")["database"]:
        return JsonResponse({"status": f"database {problem}"}, status=503)
    return JsonResponse({"status": "ok"})


def live(request: HttpRequest) -> JsonResponse:
    """200 whenever this process can answer."""
    return JsonResponse({"status": "ok"})


def ready(request: HttpRequest) -> JsonResponse:
    """200 if everything it depends on answers; 503 with what does not."""
    missing = {name: problem for name, problem in _answers(*CHECKS).items() if problem}
    if missing:
        return JsonResponse({"status": "not ready", "missing": missing}, status=503)
    return JsonResponse({"status": "ok"})


def progress(request: HttpRequest) -> JsonResponse:
    """503 when work waits, and for SLUICE_STALLED_SECONDS no live worker could take it, or slots were free
    and nothing started; or when a periodic job is late, or runs, for so long while workers live."""
    if problem := _answers("database")["database"]:
        return JsonResponse({"status": f"database {problem}"}, status=503)
    try:
        movement = stall_check.movement()
        late = periodic_jobs.troubles(movement.now) if movement.workers else []
    except DatabaseError:
        return JsonResponse({"status": "database does not answer"}, status=503)
    seconds = queue_settings().stalled_seconds
    lasting = [str(trouble) for trouble in late if trouble.seconds > seconds]
    problem = movement.stalled(seconds) or "; ".join(lasting)
    answer = {
        "status": problem or "ok",
        "workers": movement.workers,
        "idle_slots": movement.idle,
        "waiting_since": movement.waiting_since,
        "last_start": movement.last_start,
        "periodic_jobs": [str(trouble) for trouble in late],
    }
    return JsonResponse(answer, status=503 if problem else 200)


def _database_problem() -> str:
    try:
        sql.value("SELECT 1")
    except DatabaseError as error:
        logger.warning("not ready: the database: %s", type(error).__name__)
        return "does not answer"
    return ""


MIGRATED_SECONDS = 60.0
"""How long a database with all migrations applied is not checked again; a backup may be older."""

_migrated: dict[str, float] = {}
"""When the database of an alias was last seen with all migrations applied."""

process_state.register(_migrated.clear)


def _migrations_problem() -> str:
    alias = connection.alias
    if time.monotonic() - _migrated.get(alias, -MIGRATED_SECONDS) < MIGRATED_SECONDS:
        return ""
    try:
        executor = MigrationExecutor(connection)
        missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    except DatabaseError:
        return "cannot be read"
    if missing:
        return f"{missing} are not applied: run `manage.py migrate`"
    _migrated[alias] = time.monotonic()
    return ""


def _broker_problem() -> str:
    try:
        link = current_app.connection_for_write(connect_timeout=BROKER_SECONDS)
    except KeyError:
        return as_named_here("has an invalid URL: correct BROKER_URL")
    try:
        with link:
            link.ensure_connection(max_retries=1, timeout=BROKER_SECONDS)
    except broker_errors() as error:
        logger.warning("not ready: the broker: %s", type(error).__name__)
        return "does not answer; work waits in the database meanwhile"
    return ""


CHECKS: Mapping[str, Callable[[], str]] = {
    "database": _database_problem,
    "migrations": _migrations_problem,
    "broker": _broker_problem,
}

_shared: dict[str, SharedCheck] = {}
"""The checks as this process runs them."""


def _renew() -> None:
    _shared.update({name: SharedCheck(partial(_problem_of, name)) for name in CHECKS})


def _problem_of(name: str) -> str:
    return CHECKS[name]()


_renew()
process_state.register(_renew, in_forked_child=True)


def _answers(*names: str) -> dict[str, str]:
    return answers(_shared, names, CHECK_SECONDS)
