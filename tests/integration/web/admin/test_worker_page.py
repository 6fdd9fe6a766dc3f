"""The page of a worker: what it runs, what it did and how fast, and draining it from there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Attempt, Execution, Lease, Outcome, Worker
from queuemgr.operations import workers
from queuemgr.operations.controls import Actor
from queuemgr.reporting.worker_history import of_worker
from queuemgr.scheduling import limit_rows
from tests.integration.web.admin.admin_pages import an_attempt, page, queries_of, text_of
from tests.integration.web.admin.dashboard_fleet import a_fleet, an_ended

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker(sent: list[Any], make_worker: Callable[..., Worker]) -> Worker:
    limit_rows.sync()
    return a_fleet(make_worker)


def page_of(worker: Worker) -> str:
    return page("worker", worker.pk, view="change")


def ran(worker: str, seconds: float, outcome: str = Outcome.DONE) -> None:
    now = database_now()
    attempt = an_attempt(an_ended(f"doc:{Execution.objects.count()}"), outcome)
    began = now - timedelta(seconds=seconds)
    Attempt.objects.filter(pk=attempt.pk).update(worker=worker, started_at=began, ended_at=now)


def test_it_shows_what_runs_for_how_long_and_what_is_slower_than_usual(
    superuser: Client, worker: Worker
) -> None:
    ran("other@test", 2)
    ran(worker.name, 2)
    since = database_now() - timedelta(minutes=3)
    lease = Lease.objects.filter(worker=worker, phase="prep").order_by("pk")[0]
    Lease.objects.filter(pk=lease.pk).update(started_at=since)
    text = text_of(superuser.get(page_of(worker)))
    running = text[text.index("Running now") :]
    assert running.count(", slow</b>") == 1
    assert f">{lease.execution.key}</a>" in running
    assert len([key for key in Execution.objects.filter(lease__worker=worker) if key.key in running]) == 4
    assert "4 of 8 slots busy" in text


def test_it_compares_its_run_times_with_those_of_all_workers(worker: Worker) -> None:
    for _ in range(3):
        ran(worker.name, 60)
        ran("other@test", 1)
    ran(worker.name, 60, Outcome.FAILED)
    ran(worker.name, 60, Outcome.RETRIED)
    ran(worker.name, 60, Outcome.INTERRUPTED)
    found = of_worker(worker.name, database_now())
    (step,) = found.steps
    assert (step.step, step.done, step.retried, step.failed) == ("prep/probe", 3, 1, 1)
    assert step.ran.p50 is not None and step.of_all.p50 is not None
    assert step.ran.p50 > 40 > step.of_all.p50
    assert found.total == step.__class__("all", *list(vars(step).values())[1:])


def test_an_old_attempt_and_one_of_another_worker_are_not_of_its_last_hour(worker: Worker) -> None:
    ran(worker.name, 1)
    Attempt.objects.update(ended_at=database_now() - timedelta(hours=2))
    ran("other@test", 1)
    assert of_worker(worker.name, database_now()).steps == ()


def test_a_drained_worker_says_who_did_it_and_can_be_resumed_from_there(
    operator: Client, worker: Worker
) -> None:
    assert "queuemgr/worker/drain/?name=" in text_of(operator.get(page_of(worker)))
    workers.drain(worker.name, Actor("kim", "command", "the disk is slow"))
    text = text_of(operator.get(page_of(worker)))
    assert "drained by kim since" in text
    assert "the disk is slow" in text
    assert "queuemgr/worker/resume/?name=" in text


def test_it_is_read_in_as_many_statements_however_much_it_runs(superuser: Client, worker: Worker) -> None:
    few = len(queries_of(superuser, page_of(worker)))
    for _ in range(5):
        ran(worker.name, 1)
    assert len(queries_of(superuser, page_of(worker))) == few
