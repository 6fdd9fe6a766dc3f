"""Batches and bulk actions through the API: what the commands do, with the same rights and records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from queuemgr.flows.flow import NewExecution
from queuemgr.flows.outcomes import Failed
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import AuditEntry, BulkAction, Execution, State
from queuemgr.operations.bulk import chunk
from queuemgr.scheduling import limit_rows
from queuemgr.web.api.v1 import api as v1
from tests.integration.web.api.api_client import Api, api, problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root", "sent")]


@pytest.fixture
def caller() -> Api:
    return api()


def opened(caller: Api, count: int, **rules: Any) -> None:
    body = {"name": "night", "flow": "probe", **rules}
    assert caller.post("batches", body).status_code == 201
    if not count:
        return
    items = [{"key": f"m{n}"} for n in range(count)]
    assert caller.post("batches/night/add", {"items": items}).json()["new"] == count


def test_a_batch_is_opened_filled_closed_and_its_results_are_read_in_order(
    caller: Api, transactional_db: None, played: Callable[..., Any]
) -> None:
    worker = played(slots=3)
    opened(caller, 3)
    grants = {grant.key: grant for grant in worker.begin_all()}
    worker.end(grants["m0"])
    worker.end(grants["m2"], Failed("not_found", "gone"))
    assert caller.post("batches/night/close").json() == {"closed": True}
    assert caller.post("batches/night/close").json() == {"closed": False}
    seen = caller.get("batches/night").json()
    assert {n: seen["progress"][n] for n in ("total", "running", "done", "failed")} == {
        "total": 3, "running": 1, "done": 1, "failed": 1,
    }  # fmt: skip
    first = caller.get("batches/night/results").json()
    assert ([r["key"] for r in first["results"]], first["after"]) == (["m0"], 0)
    worker.end(grants["m1"])
    rest = caller.get("batches/night/results", after=first["after"]).json()
    assert [(r["key"], r["state"]) for r in rest["results"]] == [("m1", "done"), ("m2", "failed")]
    assert caller.get("batches/night/results", after=2).json() == {"results": [], "after": 2}
    assert caller.get("batches/night").json()["ended_at"]


def test_a_batch_calls_back_when_it_completes_and_is_in_another(caller: Api, transactional_db: None) -> None:
    opened(caller, 0, on_success={"flow": "probe", "payload": {"seconds": 1}}, on_failure={"flow": "probe"})
    inner = {"name": "inner", "flow": "probe", "parent": "night"}
    assert caller.post("batches", inner).status_code == 201
    caller.post("batches/night/close")
    assert caller.get("batches/night").json()["completed_at"] is None
    caller.post("batches/inner/close")
    seen = caller.get("batches/night").json()
    assert (seen["succeeded"], seen["parent"]) == (True, None)
    assert caller.get("batches/inner").json()["parent"] == "night"
    fired = {callback["event"]: callback for callback in seen["callbacks"]}
    assert (fired["on_success"]["state"], fired["on_failure"]["fired"]) == ("waiting", None)
    called = Execution.objects.get(pk=fired["on_success"]["execution_id"])
    assert called.payload == {"seconds": 1}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"flow": "nonsense"}, "no flow is called"),
        ({"flow": "papers", "key": "x"}, "makes keys itself"),
        ({"flow": "probe", "payload": {"seconds": "x"}}, "seconds"),
        ({"flow": "probe", "ky": 1}, "ky"),
    ],
)
def test_a_callback_that_cannot_be_one_is_refused(caller: Api, wrong: dict[str, Any], said: str) -> None:
    refused = caller.post("batches", {"name": "night", "flow": "probe", "on_complete": wrong})
    assert 400 <= refused.status_code < 500
    assert said in refused.content.decode()
    assert caller.get("batches").json()["batches"] == []


def test_the_schema_declares_every_field_of_a_result() -> None:
    result = v1.get_openapi_schema()["components"]["schemas"]["Result"]
    assert set(result["required"]) == set(result["properties"])


def test_adding_the_same_again_changes_nothing_and_a_closed_batch_takes_no_more(caller: Api) -> None:
    opened(caller, 2)
    again = caller.post("batches/night/add", {"items": [{"key": "m1"}, {"key": "m2"}]}).json()
    assert again == {"new": 1, "already": 1, "outside_batch": 0}
    caller.post("batches/night/close", {"reason": "all there"})
    refused = caller.post("batches/night/add", {"items": [{"key": "m3"}]})
    assert problem(refused, "conflict")["state"] == "closed"
    assert AuditEntry.objects.get(action="close batch").reason == "all there"


def test_a_cancelled_batch_cancels_what_waits_once(caller: Api) -> None:
    opened(caller, 3)
    answers = [
        caller.post("batches/night/cancel", {"reason": "wrong list"}, Idempotency_Key="k").json()
        for _ in range(2)
    ]
    assert answers == [{"unfinished": 3}] * 2
    assert {*Execution.objects.values_list("state", flat=True)} == {State.CANCELLED}
    assert AuditEntry.objects.filter(action="cancel batch").count() == 1


def test_an_invalid_batch_is_refused(caller: Api) -> None:
    opened(caller, 1)
    problem(caller.post("batches", {"name": "night", "flow": "probe"}), "conflict")
    problem(caller.post("batches", {"name": "a/b", "flow": "probe"}), "invalid")
    problem(caller.post("batches", {"name": "x", "flow": "nowhere"}), "invalid")
    problem(caller.post("batches", {"name": "x", "flow": "probe", "window": -1}), "invalid")
    for path in ("batches/none", "batches/none/results"):
        problem(caller.get(path), "not-found")
    problem(caller.post("batches/none/close"), "not-found")


def test_batches_are_listed_newest_first(caller: Api) -> None:
    for name in "abc":
        caller.post("batches", {"name": name, "flow": "probe"})
    page = caller.get("batches", rows=2).json()
    assert [batch["name"] for batch in page["batches"]] == ["c", "b"]
    rest = caller.get("batches", cursor=page["next"]).json()
    assert [batch["name"] for batch in rest["batches"]] == ["a"]


def failures(count: int, kind: str = "network") -> None:
    limit_rows.sync()
    enqueue_many("probe", [NewExecution(f"{kind}{n}") for n in range(count)])
    Execution.objects.filter(key__startswith=kind).update(
        state=State.FAILED, route=None, finished_at=timezone.now(), error_kind=kind,
    )  # fmt: skip


RETRY = {"verb": "retry", "filters": {"error_kind": "network"}, "reason": "the proxy is mended"}


def test_a_bulk_action_is_previewed_without_changing_anything(caller: Api) -> None:
    failures(3)
    failures(1, "quota")
    found = caller.post("bulk-actions/preview", RETRY).json()
    assert (found["matched"], found["more"], len(found["sample"])) == (3, False, 3)
    assert not BulkAction.objects.exists()
    assert Execution.objects.failed().count() == 4


def test_a_bulk_action_is_created_started_and_followed_to_its_end(caller: Api) -> None:
    failures(3)
    made = caller.post("bulk-actions", RETRY, Idempotency_Key="k").json()
    assert (made["state"], made["matched"], made["source"]) == ("previewed", 3, "api")
    assert caller.post("bulk-actions", RETRY, Idempotency_Key="k").json() == made
    started = caller.post(f"bulk-actions/{made['id']}/start").json()
    assert started["state"] == "running"
    problem(caller.post(f"bulk-actions/{made['id']}/start"), "conflict")
    for _ in range(3):
        chunk.change_next(made["id"])
    done = caller.get(f"bulk-actions/{made['id']}").json()
    assert (done["state"], done["changed"]) == ("done", 3)
    assert not Execution.objects.failed().exists()
    (listed,) = caller.get("bulk-actions").json()["bulk_actions"]
    assert listed == done


def test_a_bulk_action_is_stopped_and_resumed(caller: Api) -> None:
    failures(2)
    pk = caller.post("bulk-actions", RETRY).json()["id"]
    caller.post(f"bulk-actions/{pk}/start")
    stopped = caller.post(f"bulk-actions/{pk}/stop", {"reason": "too early"}).json()
    assert (stopped["state"], stopped["stopped_by"]) == ("stopped", "owner-of-robot")
    problem(caller.post(f"bulk-actions/{pk}/stop"), "conflict")
    rest = caller.post(f"bulk-actions/{pk}/resume").json()
    assert (rest["state"], rest["matched"]) == ("running", 2)


def test_a_permission_missing_for_one_is_missing_for_many() -> None:
    failures(1)
    caller = api(permissions=["add_bulkaction", "view_execution", "cancel_execution"])
    refused = problem(caller.post("bulk-actions", RETRY), "permission-missing")
    assert refused["permission"] == "queuemgr.retry_execution"


@pytest.mark.parametrize(
    "wrong",
    [
        {"verb": "explode"},
        {"verb": "retry", "filters": {"fase": "prep"}},
        {"verb": "retry", "arguments": {"priority": "low"}},
        {"verb": "retry", "filters": {"flow": "\u0000"}},
        {"verb": "retry", "up_to": 0},
        {"verb": "retry", "filters": {"batch": "none"}},
        {"verb": "priority"},
    ],
)
def test_an_invalid_bulk_action_is_refused(caller: Api, wrong: dict[str, Any]) -> None:
    failures(1)
    problem(caller.post("bulk-actions", wrong), "invalid")
    problem(caller.post("bulk-actions/preview", wrong), "invalid")


def test_an_unknown_bulk_action_is_404(caller: Api) -> None:
    problem(caller.get("bulk-actions/9"), "not-found")
    problem(caller.post("bulk-actions/9/start"), "not-found")
