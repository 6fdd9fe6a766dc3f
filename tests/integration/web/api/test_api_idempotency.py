"""A request sent again under its Idempotency-Key takes effect once and is answered alike."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import AuditEntry, Execution, IdempotencyRecord, Queue
from queuemgr.operations import controls
from queuemgr.scheduling import limit_rows
from queuemgr.worker import housekeeping
from tests.integration.web.api.api_client import ANN, Api, api, problem, someone

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]

REPLAYED = "Idempotent-Replayed"


@pytest.fixture
def caller() -> Api:
    return api()


def probe(key: str) -> dict[str, Any]:
    return {"flow": "probe", "key": key}


def test_a_repeated_request_gets_the_same_answer_and_has_no_second_effect(caller: Api) -> None:
    first = caller.post("executions", probe("a"), Idempotency_Key="k")
    again = caller.post("executions", probe("a"), Idempotency_Key="k")
    assert (first.status_code, again.status_code) == (201, 201), "without a key it would be 200"
    assert first.json() == again.json()
    assert (REPLAYED in first, again[REPLAYED]) == (False, "true")


def test_a_pause_sent_twice_under_one_key_is_recorded_once(caller: Api) -> None:
    limit_rows.sync()
    for _ in range(2):
        caller.post("pause", {"target": "prep.low"}, Idempotency_Key="k")
    assert AuditEntry.objects.filter(action="pause").count() == 1


def test_a_different_request_under_the_same_key_is_422_and_has_no_effect(caller: Api) -> None:
    caller.post("executions", probe("a"), Idempotency_Key="k")
    problem(caller.post("executions", probe("b"), Idempotency_Key="k"), "key-reused")
    problem(caller.post("executions/many", probe("a"), Idempotency_Key="k"), "invalid")
    assert list(Execution.objects.values_list("key", flat=True)) == ["a"]


def test_keys_of_one_token_do_not_affect_another_token(caller: Api) -> None:
    caller.post("executions", probe("a"), Idempotency_Key="k")
    made = api(name="other").post("executions", probe("b"), Idempotency_Key="k")
    assert (made.status_code, REPLAYED in made) == (201, False)


def test_a_refused_request_stores_no_key_and_has_no_effect(caller: Api) -> None:
    problem(caller.post("executions/99/cancel", {}, Idempotency_Key="k"), "not-found")
    problem(caller.post("limits/reset-breaker", {"limits": []}, Idempotency_Key="k"), "invalid")
    assert not IdempotencyRecord.objects.exists()


def test_a_full_queue_keeps_what_was_enqueued_and_the_same_key_continues_when_there_is_room(
    caller: Api,
) -> None:
    limit_rows.sync()
    controls.edit_queue("prep.normal", ANN, max_pending=1)
    body = {"flow": "probe", "items": [{"key": "a"}, {"key": "b"}]}
    refused = problem(caller.post("executions/many", body, Idempotency_Key="k"), "queue-full")
    assert refused["new"] == 1
    Queue.objects.update(max_pending=0)
    done = caller.post("executions/many", body, Idempotency_Key="k")
    assert (done.json()["new"], done.json()["already"], REPLAYED in done) == (1, 1, False)


@pytest.mark.parametrize("key", ["", " ", "a b", "a\x01", "é", "k" * 201])
def test_an_idempotency_key_that_cannot_be_stored_is_refused(caller: Api, key: str) -> None:
    problem(caller.post("executions", probe("a"), Idempotency_Key=key), "invalid")
    assert not Execution.objects.exists()


def test_idempotency_keys_are_refused_for_a_session(client: Any) -> None:
    client.force_login(someone())
    response = client.post(
        "/api/v1/executions", probe("a"), "application/json", headers={"Idempotency-Key": "k"}
    )
    assert "token" in problem(response, "invalid")["detail"]


def test_stored_answers_are_deleted_after_a_day(caller: Api) -> None:
    caller.post("executions", probe("a"), Idempotency_Key="old")
    IdempotencyRecord.objects.update(at=database_now() - timedelta(hours=25))
    caller.post("executions", probe("b"), Idempotency_Key="new")
    assert housekeeping.prune()["idempotency_records"] == 1
    assert IdempotencyRecord.objects.get().key == "new"


@pytest.mark.only_on("postgres", why="needs two connections")
@pytest.mark.django_db(transaction=True)
def test_of_concurrent_requests_under_one_key_exactly_one_takes_effect(
    in_threads: Callable[..., list[Any]], sent: list[Any]
) -> None:
    limit_rows.sync()
    caller = api()

    def pause(_: int) -> tuple[int, bool]:
        answer = Api(caller.secret).post("pause", {"target": "prep.low"}, Idempotency_Key="k")
        return answer.status_code, REPLAYED in answer

    answers = in_threads(6, pause)
    assert {status for status, _ in answers} == {200}
    assert sorted(replayed for _, replayed in answers) == [False, *[True] * 5]
    assert AuditEntry.objects.filter(action="pause").count() == 1
