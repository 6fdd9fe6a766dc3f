"""Whatever a process remembers, a database restored from a backup, or emptied, makes none of it wrong."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from queuemgr.base import process_state
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.timed_cache import MAX_LIFETIME
from queuemgr.lifecycle import callback_failures, webhook_events
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import CallbackFailure, Execution, Route, Webhook, Worker
from queuemgr.reporting import dashboard
from queuemgr.reporting.dashboard import trend_cache
from queuemgr.scheduling import limit_rows, tenants
from queuemgr.web import health
from queuemgr.worker import process_wide, worker_row
from queuemgr.worker.current_worker import CurrentWorker
from tests import flush_tables
from tests.integration.web.admin.dashboard_fleet import a_minute

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).parents[3]
PHASES = ("prep", "expensive", "wrap")


@pytest.fixture(autouse=True)
def _nothing_is_sent(sent: list[Any]) -> None: ...


class Backup:
    """All rows of a database with other work in it, whose ids mean other things."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def take(self) -> None:
        call_command("dumpdata", "queuemgr", output=str(self._file), verbosity=0)
        self.empty()

    def restore(self) -> None:
        self.empty()
        call_command("loaddata", str(self._file), verbosity=0)

    @staticmethod
    def empty() -> None:
        flush_tables.empty(connection, renumber=True)


@dataclass(frozen=True)
class Memory:
    """How to fill a database with other work, how to fill the memory, and what holds after the restore."""

    other: Callable[[], object]
    fill: Callable[[], object]
    holds: Callable[[Any, pytest.MonkeyPatch], bool]


def enqueue_each(phases: Any, prefix: str) -> None:
    limit_rows.sync()
    for phase in phases:
        enqueue("probe", f"{prefix}-{phase}", {"phase": phase})


def each_is_on_its_route(filled: object, patch: pytest.MonkeyPatch) -> bool:
    enqueue_each(PHASES, "after")
    after = Execution.objects.filter(key__startswith="after-").select_related("route")
    return {(row.key, row.route.phase) for row in after} == {(f"after-{p}", p) for p in PHASES}


def a_tenant() -> None:
    Route.objects.create(
        phase="prep", priority=1, resumed=False, limit_keys="tenant:a", cost=0, weight=1, tenant="a"
    )


def tenants_are_found(filled: object, patch: pytest.MonkeyPatch) -> bool:
    patch.setattr(tenants, "CHECK_SECONDS", 0.0)
    return tenants.any_tenants()


def trends() -> Any:
    return trend_cache.recent(database_now()).windows()


def minutes(attempts: int) -> Callable[[], object]:
    """Rows old enough to be added up for good."""

    def make() -> None:
        for number in range(12, 40):
            a_minute(timedelta(minutes=number), attempts=attempts)
        trends()

    return make


def trends_are_as_read_anew(filled: object, patch: pytest.MonkeyPatch) -> bool:
    remembered = trends()
    process_state.reset_all()
    return bool(remembered == trends()) and remembered[0].speeds["all"].tries > 0


def counts_are_read_again(filled: object, patch: pytest.MonkeyPatch) -> bool:
    later = database_now() + MAX_LIFETIME + timedelta(seconds=1)
    return dashboard._counted.get_or_compute(later, lambda: "new") == "new"  # type: ignore[arg-type, return-value, comparison-overlap]


def a_failure_of_before() -> None:
    now = database_now()
    CallbackFailure.objects.create(flow="press", callback="backfill", problem="x", since=now, last_at=now)


def backfill_works() -> None:
    callback_failures.DatabaseWatcher(process_wide.kept, process_wide.damage).worked("press", "backfill")


def the_failure_goes(filled: object, patch: pytest.MonkeyPatch) -> bool:
    patch.setattr(callback_failures, "WORKING_SECONDS", 0.0)
    backfill_works()
    return not CallbackFailure.objects.exists()


def migrations_are_checked_again(filled: object, patch: pytest.MonkeyPatch) -> bool:
    patch.setattr(health, "MIGRATED_SECONDS", 0.0)
    recorder = MigrationRecorder(connection)
    (newest,) = MigrationLoader(connection).graph.leaf_nodes("pipeline")
    recorder.record_unapplied(*newest)
    try:
        return bool(health._migrations_problem())
    finally:
        recorder.record_applied(*newest)


def a_worker(name: str) -> CurrentWorker:
    now = database_now()
    row = Worker.objects.create(name=name, host="h", pid=1, queues=[], slots=1, started_at=now, seen_at=now)
    return CurrentWorker(row)


def it_has_a_row_of_its_own(worker: CurrentWorker, patch: pytest.MonkeyPatch) -> bool:
    worker_row.beat(worker)
    names = dict(Worker.objects.values_list("pk", "name"))
    return names[worker.worker_id] == "mine" and len(names) == 2


def a_webhook(name: str) -> Callable[[], object]:
    def make() -> object:
        Webhook.objects.create(name=name, url="https://a.example", created_at=database_now())
        return webhook_events.subscriptions()

    return make


def those_of_the_restored_are_notified(filled: object, patch: pytest.MonkeyPatch) -> bool:
    patch.setattr(webhook_events, "FRESH_SECONDS", 0.0)
    return [each.name for each in webhook_events.subscriptions()] == ["other"]


MEMORIES = {
    "queuemgr/lifecycle/webhook_events.py": Memory(
        a_webhook("other"), a_webhook("mine"), those_of_the_restored_are_notified
    ),
    "queuemgr/scheduling/routes.py": Memory(
        lambda: enqueue_each(reversed(PHASES), "other"),
        lambda: enqueue_each(PHASES, "mine"),
        each_is_on_its_route,
    ),
    "queuemgr/scheduling/tenants.py": Memory(a_tenant, tenants.any_tenants, tenants_are_found),
    "queuemgr/reporting/dashboard/trend_cache.py": Memory(minutes(3), minutes(5), trends_are_as_read_anew),
    "queuemgr/reporting/dashboard/__init__.py": Memory(
        lambda: enqueue_each(PHASES, "other"), dashboard.read, counts_are_read_again
    ),
    "queuemgr/lifecycle/callback_failures.py": Memory(a_failure_of_before, backfill_works, the_failure_goes),
    "queuemgr/web/health.py": Memory(
        limit_rows.sync, health._migrations_problem, migrations_are_checked_again
    ),
    "queuemgr/worker/current_worker.py": Memory(
        lambda: a_worker("other"), lambda: a_worker("mine"), it_has_a_row_of_its_own
    ),
}
NOT_OF_THE_DATABASE = {
    "queuemgr/base/settings_group.py": "settings",
    "queuemgr/base/secret_environment.py": "secrets, which are never stored",
    "queuemgr/worker/dropped_messages.py": "messages of the broker to be counted",
    "queuemgr/worker/usage_commits.py": "the thread that records what steps use, guarded by their leases",
    "queuemgr/base/db_connection.py": "how deep a thread is in blocks",
    "queuemgr/base/overdue_calls.py": "calls under way",
    "queuemgr/base/signal_delivery.py": "events that wait for their receivers",
    "queuemgr/flows/callbacks.py": "how this process is to end",
    "queuemgr/lifecycle/lock_holds.py": "counts to be added to those of any database",
    "queuemgr/lifecycle/publish.py": "the broker's errors",
    "queuemgr/operations/alert_mail.py": "whether a mail is under way",
    "queuemgr/lifecycle/redispatch_timer.py": "times to decide again; a decision more does no harm",
    "queuemgr/lifecycle/tracing.py": "the exporter of traces",
    "queuemgr/reporting/later_steps.py": "a forecast, read anew after a while; it decides nothing",
    "queuemgr/scheduling/estimates.py": "estimates, read anew after 30 s; what is used is settled anyway",
    "queuemgr/scheduling/phase_settings.py": "settings",
    "queuemgr/steptools/process_lanes.py": "settings",
    "queuemgr/worker/async_slots.py": "threads; leases have ids that no database gives twice",
    "queuemgr/worker/leased_task.py": "threads; leases have ids that no database gives twice",
    "queuemgr/worker/pool_children.py": "processes; leases have ids that no database gives twice",
    "queuemgr/worker/process_wide.py": "limits and signal handlers of this process at its start",
    "pipeline/steps/llm/endpoint.py": "the dialect of an endpoint",
    "pipeline/steps/ocr/tesseract.py": "the languages of a program",
    "pipeline/steps/pdf/warm_start.py": "a process that reads documents",
}


@pytest.fixture
def backup(tmp_path: Path) -> Iterator[Backup]:
    process_state.reset_all()
    yield Backup(tmp_path / "backup.json")
    process_state.reset_all()


@pytest.mark.parametrize("module", MEMORIES)
def test_a_process_continues_rightly_with_a_database_restored_from_a_backup(
    module: str, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = MEMORIES[module]
    memory.other()
    backup.take()
    process_state.reset_all()
    filled = memory.fill()
    backup.restore()
    assert memory.holds(filled, monkeypatch)


def test_a_process_continues_with_a_database_that_was_emptied(backup: Backup, played: Any) -> None:
    """As an application's second test with a database of its own does."""
    for turn in range(3):
        enqueue_each(PHASES, f"turn{turn}")
        backup.empty()
    assert each_is_on_its_route(None, pytest.MonkeyPatch())


def modules_that_remember() -> set[str]:
    paths = [path for app in ("queuemgr", "pipeline", "project") for path in (ROOT / app).rglob("*.py")]
    return {str(path.relative_to(ROOT)) for path in paths if _registers(path.read_text())}


def _registers(source: str) -> bool:
    calls = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    names = {ast.unparse(function) for function in calls}
    return bool(names & {"process_state.register", "process_state.register_settings"})


def test_what_a_restored_database_does_to_each_memory_of_a_process_is_decided() -> None:
    """A new one that is registered needs an entry above: a test, or why the database has no part in it."""
    assert modules_that_remember() == {*MEMORIES, *NOT_OF_THE_DATABASE}
