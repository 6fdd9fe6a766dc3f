"""Health: alive queries nothing, ready names what is missing, progress detects stalled work."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.test.utils import CaptureQueriesContext

from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle import begin
from queuemgr.models import Attempt, Execution, Lease, Worker
from queuemgr.operations import controls
from queuemgr.web import health, shared_check
from tests import migration_steps
from tests.integration.web.api.api_client import ANN

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("static_root")]


def ask(what: str) -> tuple[int, dict[str, Any]]:
    response = Client().get(what if what.startswith("/") else f"/health/{what}")
    return response.status_code, response.json()


def test_alive_queries_neither_the_database_nor_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage elsewhere is no reason to restart this process."""
    monkeypatch.setattr(current_app.conf, "broker_url", "redis://127.0.0.1:1/0")
    with CaptureQueriesContext(connection) as seen:
        assert ask("live") == (200, {"status": "ok"})
    assert len(seen) == 0


def test_ready_when_database_migrations_and_broker_answer() -> None:
    assert ask("ready") == (200, {"status": "ok"})


def test_not_ready_without_the_broker_which_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The dependency is named; its address and password are not."""
    app = current_app._get_current_object()
    real, gone = app.connection_for_write, "redis://:hunter2@127.0.0.1:1/0"
    monkeypatch.setattr(app, "connection_for_write", lambda **given: real(gone, **given))
    status, body = ask("ready")
    assert (status, set(body["missing"])) == (503, {"broker"})
    assert "hunter2" not in str(body)
    assert "127.0.0.1" not in str(body)
    assert ask("live")[0] == 200


def test_not_ready_with_a_pending_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_migrated", {})
    (newest,) = migration_steps.newest()
    MigrationRecorder(connection).record_unapplied(*newest)
    try:
        status, body = ask("ready")
    finally:
        MigrationRecorder(connection).record_applied(*newest)
    assert (status, set(body["missing"])) == (503, {"migrations"})


def test_not_ready_without_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise OperationalError("password authentication failed for user hunter2")

    monkeypatch.setattr(health.sql, "value", away)
    status, body = ask("ready")
    assert (status, body["missing"]["database"]) == (503, "does not answer")
    assert "hunter2" not in str(body)


def test_the_checks_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits until all of them have begun."""
    all_began = threading.Barrier(3)

    def check() -> str:
        all_began.wait(20)
        return ""

    monkeypatch.setattr(health, "CHECK_SECONDS", 20)
    monkeypatch.setattr(health, "CHECKS", dict.fromkeys(health.CHECKS, check))
    assert ask("ready") == (200, {"status": "ok"})


def test_a_check_that_hangs_costs_one_thread_however_many_ask_and_fails_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on, begun = threading.Event(), []

    def hangs() -> str:
        begun.append(threading.current_thread())
        go_on.wait(60)
        return ""

    monkeypatch.setattr(health, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(health, "CHECKS", {**health.CHECKS, "database": hangs})
    with ThreadPoolExecutor(10) as probes:
        answers = list(probes.map(lambda _: ask("/healthz"), range(30)))
    assert answers == [(503, {"status": "database does not answer"})] * 30
    assert len(begun) == 1
    assert ask("live")[0] == 200
    go_on.set()
    begun[0].join(20)


def test_an_answer_serves_further_requests_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(health, "CHECKS", {**health.CHECKS, "database": lambda: asked.append("") or ""})
    monkeypatch.setattr(shared_check, "FRESH_SECONDS", 60)
    assert [ask("/healthz")[0] for _ in range(5)] == [200] * 5
    assert len(asked) == 1
    monkeypatch.setattr(shared_check, "FRESH_SECONDS", 0.001)
    time.sleep(0.01)
    health._shared["database"].begin()
    while len(asked) == 1:
        time.sleep(0.01)


def test_the_limit_of_a_check_is_well_below_five_seconds() -> None:
    assert max(health.CHECK_SECONDS, health.BROKER_SECONDS) <= 2.5


LONG_AGO = timedelta(minutes=30)


def wait_since_long() -> None:
    Execution.objects.update(run_after=database_now() - LONG_AGO)
    Lease.objects.update(due_at=database_now() - LONG_AGO)


def test_work_that_waits_beside_free_slots_is_no_progress(played: Any, probes: Any) -> None:
    """The messages of its leases were lost: the workers are idle and receive nothing."""
    played(slots=4)
    probes(2)
    assert ask("progress")[0] == 200, "it waits for a moment only"
    wait_since_long()
    status, body = ask("progress")
    assert (status, body["workers"], body["idle_slots"]) == (503, 1, 4)
    assert "nothing started" in body["status"]


def test_a_busy_worker_is_never_a_lack_of_progress(played: Any, probes: Any) -> None:
    """All slots taken for half an hour, and more work waits."""
    worker = played(slots=1)
    probes(3)
    worker.begin_all()
    wait_since_long()
    Lease.objects.update(started_at=database_now() - LONG_AGO)
    assert ask("progress")[0] == 200


def test_a_pause_an_empty_queue_and_work_not_due_are_no_lack_of_progress(played: Any, probes: Any) -> None:
    played(slots=4)
    assert ask("progress")[0] == 200
    controls.pause("everything", ANN)
    probes(2)
    wait_since_long()
    assert ask("progress")[0] == 200


def test_a_recent_start_is_progress(played: Any, probes: Any) -> None:
    worker = played(slots=2)
    probes(2)
    wait_since_long()
    (first, _) = Lease.objects.order_by("pk")
    begin.begin([first.pk], worker.row.pk)
    assert ask("progress")[0] == 200
    Lease.objects.filter(started_at__isnull=False).update(started_at=database_now() - LONG_AGO)
    assert ask("progress")[0] == 503
    assert not Attempt.objects.exists()


@pytest.mark.parametrize(
    "others", [{"queues": []}, {"queues": ["wrap.high"]}], ids=["periodic jobs", "another phase"]
)
def test_workers_that_cannot_take_the_work_do_not_hide_that_those_which_can_are_dead(
    others: dict[str, Any], played: Any, probes: Any, make_worker: Any
) -> None:
    dead = played(slots=4, queues=["prep.normal"]).row
    probes(1)
    wait_since_long()
    living = make_worker(name="living@test")
    Worker.objects.filter(pk=living.pk).update(slots=2 * bool(others["queues"]), **others)
    Worker.objects.filter(pk=dead.pk).update(seen_at=database_now() - LONG_AGO)
    status, body = ask("progress")
    assert (status, body["workers"]) == (503, len(others["queues"]))
    assert "worker" in body["status"]


def test_work_that_waits_while_no_worker_lives_is_no_progress(probes: Any) -> None:
    probes(1)
    wait_since_long()
    Worker.objects.all().delete()
    status, body = ask("progress")
    assert (status, "no worker" in body["status"]) == (503, True)
