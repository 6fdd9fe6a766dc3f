"""Executions through the API: enqueued once by key, listed by cursor, explained, steered."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from pipeline.models import Document
from queuemgr.base import redaction
from queuemgr.flows import flow
from queuemgr.flows.flow import LOW, NewExecution
from queuemgr.flows.unique import Unique
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import Attempt, AuditEntry, Execution, Outcome, State
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.reporting.filtering import FILTERS
from queuemgr.scheduling import limit_rows
from queuemgr.web.api.executions import ExecutionFilter
from tests.integration.web.api.api_client import ANN, Api, api, problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]


SECRET = "a-key-of-a-service"
KEPT = {
    "note": f"x {SECRET} y", SECRET: [{"n": 1.5}], "link": "https://a.example/?sig=1", "long": "z" * 9000,
}  # fmt: skip


@pytest.fixture
def caller() -> Api:
    return api()


def probes(count: int, prefix: str = "p", **payload: Any) -> list[Execution]:
    enqueue_many("probe", [NewExecution(f"{prefix}{n}", payload) for n in range(count)])
    return list(Execution.objects.filter(key__startswith=prefix).order_by("pk"))


def failed(key: str = "f") -> Execution:
    (execution,) = probes(1, key)
    Execution.objects.filter(pk=execution.pk).update(
        state=State.FAILED, route=None, finished_at=timezone.now(), error_kind="network",
        error_message="refused",
    )  # fmt: skip
    return Execution.objects.get(pk=execution.pk)


def test_the_same_key_twice_is_one_execution_and_the_second_answer_says_so(caller: Api) -> None:
    body = {"flow": "probe", "key": "a", "payload": {"seconds": 1}, "priority": "high"}
    first, second = caller.post("executions", body), caller.post("executions", body)
    assert (first.status_code, second.status_code) == (201, 200)
    assert (first.json()["new"], second.json()["new"]) == (True, False)
    assert first.json()["id"] == second.json()["id"] == Execution.objects.get().pk


def test_one_whose_unique_key_is_held_is_answered_with_who_holds_it(
    caller: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    unique = replace(flow.get_flow("probe"), unique=Unique(keys=["tenant"]))
    monkeypatch.setitem(flow._flows, "probe", unique)
    body = {"flow": "probe", "key": "a", "payload": {"tenant": "acme"}}
    first, second = caller.post("executions", body), caller.post("executions", {**body, "key": "b"})
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json() == {**first.json(), "new": False}
    tenants = {"c": "acme", "d": "acme", "e": "other"}.items()
    items = [{"key": key, "payload": {"tenant": tenant}} for key, tenant in tenants]
    many = caller.post("executions/many", {"flow": "probe", "items": items}).json()
    assert (many["new"], many["already"]) == (1, 2)
    assert [each["key"] for each in many["executions"]] == ["a", "a", "e"]
    problem(caller.post("executions", {"flow": "probe", "key": "f"}), "invalid")
    found = f"executions/{first.json()['id']}"
    assert caller.get(found).json()["unique_key"] == 'tenant="acme"'
    assert api("read", name="viewer").get(found).json()["unique_key"] is None
    Execution.objects.update(state=State.DONE, route=None, finished_at=timezone.now())
    assert caller.get(found).json()["unique_key"] is None


@pytest.mark.parametrize("key", ["a", "a/b", "1/why", "3", "ä b"])
def test_an_execution_is_found_by_its_flow_and_key_with_its_result(caller: Api, key: str) -> None:
    caller.post("executions", {"flow": "probe", "key": key})
    Execution.objects.update(state=State.DONE, route=None, finished_at=timezone.now(), result={"sent": 2})
    found = caller.get(f"flows/probe/executions/{quote(key)}").json()
    assert (found["key"], found["result"]) == (key, {"sent": 2})
    problem(caller.get(f"flows/other/executions/{quote(key)}"), "not-found")


def test_a_result_is_for_those_who_see_payloads(caller: Api) -> None:
    caller.post("executions", {"flow": "probe", "key": "a"})
    Execution.objects.update(state=State.DONE, route=None, finished_at=timezone.now(), result={"sent": 2})
    viewer = api("read", name="viewer")
    for path in ("flows/probe/executions/a", f"executions/{Execution.objects.get().pk}"):
        assert viewer.get(path).json()["result"] is None


def test_an_attempt_has_the_traceback_of_its_error(caller: Api) -> None:
    (execution,) = probes(1)
    now = timezone.now()
    Attempt.objects.create(
        lease_id=uuid4(), execution=execution, phase="prep", step="probe", priority=1, cost=0, leased_at=now,
        started_at=now, ended_at=now, outcome=Outcome.FAILED, error_kind="unexpected",
        traceback="Traceback: here", log="INFO asked",
    )  # fmt: skip
    (attempt,) = caller.get(f"executions/{execution.pk}/attempts").json()["attempts"]
    assert (attempt["traceback"], attempt["log"]) == ("Traceback: here", "INFO asked")
    viewer = api("read", name="viewer")
    (attempt,) = viewer.get(f"executions/{execution.pk}/attempts").json()["attempts"]
    assert (attempt["traceback"], attempt["log"]) == ("Traceback: here", None)


def test_a_paper_is_enqueued_by_its_identifier(caller: Api) -> None:
    made = caller.post("executions", {"item": "arXiv:2101.00001v2"}).json()
    assert (made["flow"], made["new"]) == ("papers", True)
    assert Document.objects.get(key=made["key"])


@pytest.mark.parametrize("item", ["/etc/passwd", "./paper.pdf", "C:\\secret.pdf", "file:///x.pdf"])
def test_a_path_of_the_server_is_not_taken_from_the_network(caller: Api, item: str) -> None:
    problem(caller.post("executions", {"item": item}), "invalid")
    assert not Document.objects.exists()


def test_many_are_answered_in_the_order_given_and_each_key_is_new_once(caller: Api) -> None:
    items = [{"key": key} for key in ("b", "a", "b", "c")]
    caller.post("executions", {"flow": "probe", "key": "c"})
    response = caller.post("executions/many", {"flow": "probe", "items": items}).json()
    assert (response["new"], response["already"]) == (2, 2)
    assert [(one["key"], one["new"]) for one in response["executions"]] == [
        ("b", True), ("a", True), ("b", False), ("c", False),
    ]  # fmt: skip


def test_a_dry_run_says_what_would_be_new_and_used_and_stores_nothing(caller: Api) -> None:
    controls.edit_limit("openai:gpt", ANN, new=True, allowances="1 usd/day")
    payload = {"limit_key": "openai:gpt", "uses": {"usd": 0.6}}
    body = {"flow": "probe", "items": [{"key": "a", "payload": payload}, {"key": "b", "payload": payload}]}
    found = caller.post("executions/dry-run", body).json()
    assert (found["new"], found["used"], found["scales"]) == (2, {"usd": 1_200_000}, {"usd": 1_000_000})
    (day,) = found["allowances"]
    assert (day["limit"], day["exhausts"], day["forecast"]["waiting"]) == ("openai:gpt", True, 1_200_000)
    assert not Execution.objects.exists()
    writer = api("enqueue", name="writer", permissions=("add_execution",))
    assert writer.post("executions/dry-run", body).json()["allowances"] is None
    assert api("read", name="reader").post("executions/dry-run", body).status_code == 403
    items = {"items": ["arXiv:2101.00001", "no such thing"]}
    assert problem(caller.post("executions/dry-run", items), "invalid")["item"] == 1


def test_one_bad_item_of_many_is_named_and_nothing_is_stored(caller: Api) -> None:
    response = caller.post("executions/many", {"items": ["arXiv:2101.00001", "no such thing"]})
    assert problem(response, "invalid")["item"] == 1
    assert not Document.objects.exists()
    assert not Execution.objects.exists()


def test_a_full_queue_is_429_with_its_depth_and_cap_and_loses_nothing(caller: Api) -> None:
    limit_rows.sync()
    controls.edit_queue("prep.normal", ANN, max_pending=2)
    items = [{"key": key} for key in "abcd"]
    body = problem(caller.post("executions/many", {"flow": "probe", "items": items}), "queue-full")
    assert {n: body[n] for n in ("queue", "depth", "cap", "new")} == {
        "queue": "prep.normal", "depth": 2, "cap": 2, "new": 2,
    }  # fmt: skip
    assert list(Execution.objects.order_by("pk").values_list("key", flat=True)) == ["a", "b"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"flow": "probe"},
        {"flow": "probe", "key": "a", "item": "b"},
        {"item": "arXiv:2101.00001", "payload": {}},
        {"flow": "papers", "key": "a"},
        {"flow": "nowhere", "key": "a"},
        {"flow": "probe", "item": "a"},
        {"flow": "probe", "key": ""},
        {"flow": "probe", "key": "a" * 256},
        {"flow": "probe", "key": "a\u0000b"},
        {"flow": "probe", "key": "a\nb"},
        {"flow": "probe", "key": "a", "payload": {"x": "\u0000"}},
        {"flow": "probe", "key": "a", "payload": {"trace": "/tmp/x"}},
        {"flow": "probe", "key": "a", "payload": {"die": True}},
        {"flow": "probe", "key": "a", "payload": {"requests": "many"}},
        {"flow": "probe", "key": "a", "priority": "urgent"},
        {"flow": "probe", "key": "a", "run_after": "tomorrow"},
        {"flow": "probe", "key": "a", "run_after": "2026-01-01T00:00:00"},
        {"flow": "probe", "key": "a", "kee": "b"},
        {"flow": "\u0000", "key": "a"},
    ],
)
def test_an_invalid_enqueue_is_422_on_both_databases(caller: Api, body: Any) -> None:
    """PostgreSQL refuses a NUL in text and JSON, SQLite takes it; here both do alike."""
    problem(caller.post("executions", body), "invalid")
    assert not Execution.objects.exists()


def test_work_that_could_never_start_is_refused(caller: Api) -> None:
    limit_rows.sync()
    controls.edit_limit("host:small", ANN, max_running=1)
    body = {"flow": "probe", "key": "a", "payload": {"limit_key": "host:small", "weight": 5}}
    assert "host:small" in problem(caller.post("executions", body), "never-fits")["detail"]


def test_pages_by_cursor_contain_every_row_once_whatever_is_enqueued_meanwhile(caller: Api) -> None:
    here = probes(7)
    seen, cursor = list[int](), ""
    for number in range(10):
        page = caller.get("executions", rows=3, cursor=cursor).json()
        seen += [row["id"] for row in page["executions"]]
        probes(2, f"new{number}-")
        if page["next"] is None:
            break
        cursor = page["next"]
    assert seen == [execution.pk for execution in reversed(here)]


def test_a_page_costs_a_constant_number_of_queries(caller: Api) -> None:
    counts = []
    for prefix in ("a", "b"):
        probes(20, prefix)
        with CaptureQueriesContext(connection) as seen:
            assert caller.get("executions", rows=100).status_code == 200
        counts.append(len(seen))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("cursor", ["x", "0", "-1", "1.5", "01", "9" * 30])
def test_an_invalid_cursor_is_refused(caller: Api, cursor: str) -> None:
    problem(caller.get("executions", cursor=cursor), "invalid")


def test_a_filter_selects_rows_and_an_unknown_one_is_refused(caller: Api) -> None:
    probes(2)
    enqueue_many("probe", [NewExecution("low")], priority=LOW)
    assert [row["key"] for row in caller.get("executions", priority="low").json()["executions"]] == ["low"]
    assert len(caller.get("executions", key_prefix="p").json()["executions"]) == 2
    broken = failed()
    assert [row["id"] for row in caller.get("executions", text="REFUSED").json()["executions"]] == [broken.pk]
    for wrong in ({"fase": "prep"}, {"state": "gone"}, {"status": "gone"}, {"key": "\x00"}):
        problem(caller.get("executions", **wrong), "invalid")


def test_every_filter_there_is_can_be_given_to_the_api() -> None:
    assert set(ExecutionFilter.model_fields) == set(FILTERS)


def test_an_execution_shows_why_it_waits_its_position_and_its_expected_start(caller: Api) -> None:
    limit_rows.sync()
    first, second = probes(2)
    controls.pause("prep.normal", Actor("ann", "admin", "moving"))
    explanation = caller.get(f"executions/{second.pk}/why").json()
    assert "paused by ann: moving" in explanation["why"]
    assert ("paused", "prep.normal") in {(r["kind"], r["limit"]) for r in explanation["reasons"]}
    assert (explanation["queue"], explanation["position"]) == ("prep.normal", 2)
    assert caller.get(f"executions/{first.pk}/why").json()["position"] == 1


def test_attempts_are_listed_newest_first(caller: Api) -> None:
    (execution,) = probes(1)
    now = timezone.now()
    for number in range(3):
        Attempt.objects.create(
            lease_id=f"00000000-0000-0000-0000-00000000000{number}", execution=execution,
            phase="prep", step="probe", priority=1, cost=0, worker=f"w{number}", leased_at=now,
            started_at=now, ended_at=now, outcome=Outcome.RETRIED,
        )  # fmt: skip
    page = caller.get(f"executions/{execution.pk}/attempts", rows=2).json()
    assert [attempt["worker"] for attempt in page["attempts"]] == ["w2", "w1"]
    rest = caller.get(f"executions/{execution.pk}/attempts", cursor=page["next"]).json()
    assert ([attempt["worker"] for attempt in rest["attempts"]], rest["next"]) == (["w0"], None)


def test_links_name_the_pages_of_an_execution_and_of_its_paper(caller: Api) -> None:
    paper = caller.post("executions", {"item": "arXiv:2101.00001"}).json()["id"]
    (probe,) = probes(1)
    found = caller.get(f"executions/{paper}/links").json()
    document = Document.objects.get()
    assert found["item"].endswith(f"/admin/pipeline/document/{document.pk}/change/")
    assert found["artifacts"] == []
    Document.objects.update(pdf="pdfs/a.pdf")
    (made,) = caller.get(f"executions/{paper}/links").json()["artifacts"]
    assert made["url"].endswith(f"/documents/{document.pk}/pdf")
    assert found["execution"].endswith(f"/admin/queuemgr/execution/{paper}/change/")
    assert caller.get(f"executions/{probe.pk}/links").json()["item"] is None


def test_retry_cancel_skip_priority_and_reschedule_change_one_execution_and_are_recorded(caller: Api) -> None:
    broken, (first, second, third, fourth) = failed(), probes(4)
    later = (timezone.now() + timedelta(hours=1)).isoformat()
    for pk, verb, body in (
        (broken.pk, "retry", {"reason": "mended"}),
        (first.pk, "cancel", {"reason": "wrong"}),
        (second.pk, "skip", {"reason": "wrong"}),
        (third.pk, "priority", {"priority": "high"}),
        (fourth.pk, "reschedule", {"run_after": later}),
    ):
        assert caller.post(f"executions/{pk}/{verb}", body).json() == {"changed": 1}, verb
    states = dict(Execution.objects.values_list("pk", "state"))
    assert [states[e.pk] for e in (broken, first, second)] == ["waiting", "cancelled", "skipped"]
    assert caller.get(f"executions/{third.pk}").json()["priority"] == "high"
    assert caller.get(f"executions/{fourth.pk}").json()["run_after"][:16] == later[:16]
    actions = {change.action: change for change in AuditEntry.objects.filter(source="api")}
    assert set(actions) == {"retry", "cancel", "skip", "set priority", "reschedule"}
    assert actions["retry"].reason == "mended"


def test_a_verb_its_state_does_not_allow_is_409_and_says_the_state(caller: Api) -> None:
    (waiting,) = probes(1)
    assert problem(caller.post(f"executions/{waiting.pk}/retry"), "conflict")["state"] == "waiting"
    why = {"reason": "wrong"}
    caller.post(f"executions/{waiting.pk}/cancel", why)
    refused = problem(caller.post(f"executions/{waiting.pk}/cancel", why), "conflict")
    assert refused["state"] == "cancelled"


def test_a_retry_with_another_payload_needs_the_right_to_edit_payloads() -> None:
    broken, body = failed(), {"payload": {"seconds": 3}, "from_start": True, "reason": "x"}
    may_retry = api(permissions=["retry_execution", "view_execution"], name="operator")
    refused = problem(may_retry.post(f"executions/{broken.pk}/retry", body), "permission-missing")
    assert refused["permission"] == "queuemgr.edit_payload"
    assert api().post(f"executions/{broken.pk}/retry", body).json() == {"changed": 1}
    assert Execution.objects.get().payload == {"seconds": 3}


def test_answers_hold_no_secret_that_a_step_kept_and_nothing_else_is_changed(
    caller: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction, "_secrets", set())
    redaction.register_secret(SECRET)
    (execution,) = probes(1, "kept")
    Execution.objects.update(payload=KEPT, context=KEPT, result=[KEPT])
    for answer in (caller.get(f"executions/{execution.pk}"), caller.get("executions")):
        assert SECRET not in answer.content.decode()
    shown = caller.get(f"executions/{execution.pk}").json()
    masked = {"note": "x *** y", "***": [{"n": 1.5}], "link": "https://a.example/?sig=1", "long": "z" * 9000}
    assert [shown["payload"], shown["context"], shown["result"]] == [masked, masked, [masked]]


def test_a_payload_that_is_sent_back_as_it_was_answered_keeps_what_was_masked(
    caller: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction, "_secrets", set())
    redaction.register_secret(SECRET)
    pk = caller.post("executions", {"item": "arXiv:2101.00001v2"}).json()["id"]
    before = {**Execution.objects.get().payload, "note": f"x {SECRET}", "long": "z" * 9000}
    ended = {"state": State.FAILED, "route": None, "finished_at": timezone.now()}
    Execution.objects.update(payload=before, **ended)
    shown = caller.get(f"executions/{pk}").json()["payload"]
    assert shown["note"] == "x ***"
    again = {"payload": {**shown, "more": "***"}, "from_start": True, "reason": "x"}
    problem(caller.post(f"executions/{pk}/retry", again), "invalid")
    again["payload"] = {**shown, "more": 1}
    assert caller.post(f"executions/{pk}/retry", again).json() == {"changed": 1}
    assert Execution.objects.get().payload == {**before, "more": 1}


@pytest.mark.parametrize("path", ["", "/why", "/attempts", "/links"])
def test_an_unknown_execution_is_404(caller: Api, path: str) -> None:
    problem(caller.get(f"executions/{2**62}{path}"), "not-found")
    problem(caller.get(f"executions/0{path}"), "invalid")
    problem(caller.get(f"executions/{10**30}{path}"), "invalid")


def test_what_ends_or_discards_work_needs_a_reason(caller: Api) -> None:
    broken, (waiting,) = failed(), probes(1)
    for pk, verb, body in (
        (waiting.pk, "cancel", {}), (waiting.pk, "skip", {"reason": ""}),
        (broken.pk, "retry", {"from_start": True}),
    ):  # fmt: skip
        problem(caller.post(f"executions/{pk}/{verb}", body), "invalid")
    assert set(Execution.objects.values_list("state", flat=True)) == {"waiting", "failed"}


def test_a_cancellation_and_a_priority_are_undone_unless_the_work_has_changed_since(caller: Api) -> None:
    (one,) = probes(1)
    path = f"executions/{one.pk}"
    assert "nobody cancelled" in problem(caller.post(f"{path}/undo"), "conflict")["detail"]
    caller.post(f"{path}/cancel", {"reason": "wrong"})
    assert caller.post(f"{path}/undo", {"reason": "it was right"}).json() == {"changed": 1}
    caller.post(f"{path}/priority", {"priority": "high"})
    assert caller.post(f"{path}/undo").json() == {"changed": 1}
    shown = caller.get(path).json()
    assert (shown["state"], shown["priority"]) == ("waiting", "normal")
    caller.post(f"{path}/cancel", {"reason": "wrong"})
    caller.post(f"{path}/retry")
    refused = problem(caller.post(f"{path}/undo"), "conflict")
    assert "has changed since" in refused["detail"]
    may_not = api(permissions=["undo_auditentry", "view_execution"], name="clerk")
    problem(may_not.post(f"{path}/undo"), "permission-missing")
