"""An end is reported once: whoever ends the work, at once with others, by whatever way it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NewExecution
from queuemgr.flows.outcomes import Done, Failed, Lost
from queuemgr.lifecycle import finish, webhook_events
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue, enqueue_many
from queuemgr.lifecycle.finish import Finish
from queuemgr.models import Execution, Lease, Webhook
from queuemgr.operations import batches, executions
from tests.integration.conftest import PlayedWorker
from tests.integration.webhooks.conftest import ANN, deliveries, types

Add = Callable[..., Webhook]
Played = Callable[..., PlayedWorker]


@pytest.mark.only_on("postgres", why="needs two connections that write at once")
def test_an_end_that_several_processes_store_at_once_is_reported_once(
    add_webhook: Add, played: Played, in_threads: Callable[..., list[Any]]
) -> None:
    add_webhook()
    add_webhook("second", events="finished")
    worker = played(slots=8)
    enqueue_many("probe", [NewExecution(f"p{number}") for number in range(5)])
    grants = worker.begin_all()

    def end(number: int) -> None:
        for grant in grants:
            finish.finish_leases([Finish(grant.lease_id, Done())], database_now())

    in_threads(4, end)
    reported = sorted((row.payload["webhook"], row.payload["data"]["key"]) for row in deliveries())
    assert reported == sorted((name, f"p{number}") for name in ("ops", "second") for number in range(5))


@pytest.mark.only_on("postgres", why="needs two connections that write at once")
def test_work_that_its_worker_ends_while_it_is_lost_is_reported_once_as_one_of_them(
    add_webhook: Add, played: Played, in_threads: Callable[..., list[Any]]
) -> None:
    add_webhook()
    worker = played(slots=8)
    for number in range(10):
        enqueue("probe", f"p{number}")
        (grant,) = [each for each in worker.begin_all() if each.flow == "probe"]

        def end(by: int, grant: Any = grant) -> None:
            if by:
                finish.finish_leases([Finish(grant.lease_id, Done())], database_now())
            else:
                finish.end_abandoned(grant.lease_id, Lost("gone"))

        in_threads(2, end)
        executions.cancel(Execution.objects.filter(flow="probe"), ANN)
    by_execution: dict[int, list[str]] = {}
    for row in deliveries():
        by_execution.setdefault(row.payload["data"]["execution"], []).append(row.payload["type"])
    assert len(by_execution) == 10
    either = (["execution.finished"], ["execution.lost", "execution.cancelled"])
    assert all(reported in either for reported in by_execution.values())


def test_work_lost_for_the_last_time_is_reported_as_lost_and_as_failed(
    add_webhook: Add, played: Played
) -> None:
    add_webhook(events="lost failed")
    worker = played(slots=1)
    enqueue("probe", "a")
    for _ in range(3):
        Execution.objects.filter(flow="probe").update(run_after=database_now())
        dispatch()
        (grant,) = [each for each in worker.begin_all() if each.flow == "probe"]
        finish.end_abandoned(grant.lease_id, Lost("gone"))
    assert types() == ["execution.lost"] * 3 + ["execution.failed"]
    assert len({row.payload["id"] for row in deliveries()}) == 4


def test_an_execution_that_fails_again_after_a_retry_is_reported_again(
    add_webhook: Add, played: Played
) -> None:
    add_webhook(events="failed")
    worker = played(slots=2)
    enqueue("probe", "a")
    for _ in range(2):
        (grant,) = [each for each in worker.begin_all() if each.flow == "probe"]
        worker.end(grant, Failed("not_found", "no"), next_too=False)
        executions.retry(Execution.objects.filter(flow="probe"), ANN)
    assert types() == ["execution.failed"] * 2
    assert len({row.key for row in deliveries()}) == 2


def test_what_people_cancel_and_skip_is_reported(add_webhook: Add, played: Played) -> None:
    add_webhook()
    enqueue_many("probe", [NewExecution("a"), NewExecution("b")])
    executions.cancel(Execution.objects.filter(key="a"), ANN)
    executions.skip(Execution.objects.filter(key="b"), ANN)
    assert [(row.payload["type"], row.payload["data"]["outcome"]) for row in deliveries()] == [
        ("execution.cancelled", "cancelled"), ("execution.finished", "skipped"),
    ]  # fmt: skip


def test_a_batch_is_reported_once_it_completes_and_again_when_it_completes_anew(
    add_webhook: Add, played: Played
) -> None:
    add_webhook(events="batch_completed")
    add_webhook("others", events="batch_completed", flows="shop.*")
    worker = played(slots=4)
    batch = batches.open_batch("nightly", "probe", ANN)
    batches.add(batch, [NewExecution("a"), NewExecution("b")])
    batches.close(batch, ANN)
    dispatch()
    first, second = worker.begin_all()
    worker.end(first, Done())
    assert deliveries() == []
    worker.end(second, Failed("not_found", "no"))
    dispatch()
    (reported,) = deliveries()
    assert reported.payload["data"] | {"completed_at": ""} == {
        "batch": "nightly", "flow": "probe", "outcome": "failed", "cancelled": False, "completed_at": "",
    }  # fmt: skip
    executions.retry(Execution.objects.filter(flow="probe", state="failed"), ANN)
    dispatch()
    (again,) = [grant for grant in worker.begin_all() if grant.flow == "probe"]
    worker.end(again, Done())
    dispatch()
    assert [row.payload["data"]["outcome"] for row in deliveries()] == ["failed", "succeeded"]


def test_members_that_are_cancelled_with_their_batch_are_reported(add_webhook: Add, played: Played) -> None:
    add_webhook(events="cancelled batch_completed")
    batch = batches.open_batch("nightly", "probe", ANN)
    batches.add(batch, [NewExecution(f"p{number}") for number in range(3)])
    batches.cancel(batch, ANN)
    dispatch()
    dispatch()
    assert sorted(types()) == ["batch.completed", *["execution.cancelled"] * 3]
    reported = next(row for row in deliveries() if row.payload["type"] == "batch.completed")
    assert (reported.payload["data"]["cancelled"], reported.payload["data"]["outcome"]) == (True, "failed")


def test_where_there_is_no_webhook_an_end_takes_not_one_statement_more(
    played: Played, django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = played(slots=4)
    webhook_events.subscriptions()
    enqueue_many("probe", [NewExecution("a"), NewExecution("b")])
    first, second = worker.begin_all()
    with CaptureQueriesContext(connection) as asked:
        finish.finish_leases([Finish(first.lease_id, Done())], database_now())
    monkeypatch.setattr(webhook_events, "ended", lambda *args: None)
    with django_assert_num_queries(len(asked)):
        finish.finish_leases([Finish(second.lease_id, Done())], database_now())
    assert not Lease.objects.exists()
