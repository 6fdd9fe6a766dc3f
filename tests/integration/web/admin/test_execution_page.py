"""An execution's own page: its timeline, what it shows to whom, and its buttons."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from queuemgr.base.config import observability_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import flow
from queuemgr.flows.flow import HIGH, Link, get_flow
from queuemgr.flows.unique import Unique
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Attempt, AuditEntry, Batch, Execution, State
from queuemgr.operations import controls, executions
from queuemgr.web import outside_links
from tests.integration.cli.commands import queue
from tests.integration.web.admin.admin_pages import page, text_of
from tests.integration.web.admin.execution_pages import ANN, a_failed_one, own_page, press

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def failed(played: Any, probes: Any) -> Execution:
    return a_failed_one(played, probes)


def test_the_history_shows_attempts_waits_and_peoples_actions_in_order(
    failed: Execution, operator: Client
) -> None:
    Attempt.objects.filter(pk=failed.attempts.all()[0].pk).update(
        due_at=failed.created_at - timedelta(seconds=90), leased_at=failed.created_at - timedelta(seconds=30)
    )
    history = operator.get(own_page(failed)).context["history"]
    assert [line["entry"].what for line in history if line["entry"].kind != "wait"] == [
        "enqueued", "prep/probe snoozed by the step", "cancel by ann", "retry by ann", "prep/probe failed",
    ]  # fmt: skip
    (in_line, *_) = [line for line in history if line["entry"].what == "waited for limits and slots"]
    assert (in_line["lasted"], in_line["entry"].detail) == ("1 min", "for host:a")
    text = text_of(operator.get(own_page(failed)))
    assert "state waiting; the server is back" in text
    assert "not_found: 404 for page Seven" in text


def test_the_waterfall_has_each_attempt_and_wait_with_what_was_used(
    failed: Execution, operator: Client
) -> None:
    first, last = failed.attempts.all()
    start = failed.created_at
    Attempt.objects.filter(pk=first.pk).update(
        due_at=start, leased_at=start, started_at=start, ended_at=start + timedelta(seconds=10), cost=3
    )
    late = {name: start + timedelta(seconds=30) for name in ("due_at", "leased_at", "started_at")}
    Attempt.objects.filter(pk=last.pk).update(
        **late, ended_at=start + timedelta(seconds=40), uses="tokens=1250", traceback="Traceback: in line 7"
    )
    response = operator.get(own_page(failed))
    drawn = response.context["waterfall"]
    assert [(bar.entry.kind, round(bar.left), round(bar.width), bar.used) for bar in drawn.bars] == [
        ("attempt", 0, 25, "3 requests"), ("wait", 25, 50, ""), ("attempt", 75, 25, "1,250 tokens"),
    ]  # fmt: skip
    assert response.context["used"] == "3 requests, 1,250 tokens"
    assert "Traceback: in line 7" in text_of(response)


@pytest.mark.parametrize(("rights", "is_shown"), [(("view_payload",), True), ((), False)])
def test_the_log_of_a_failure_is_shown_as_text_to_those_who_may_see_payloads(
    failed: Execution, staff: Callable[..., Client], rights: tuple[str, ...], is_shown: bool
) -> None:
    last = failed.attempts.last()
    Attempt.objects.filter(pk=last.pk).update(log="INFO a.step: <script>asked</script>")
    client = staff("view_execution", "view_attempt", *rights)
    for address in (own_page(failed), page("attempt", last.pk, view="change")):
        shown = text_of(client.get(address))
        assert ("INFO a.step: &lt;script&gt;asked" in shown) == is_shown, address
        assert "<script>asked" not in shown
    assert "asked" in queue("show", failed.key).out


def test_trace_and_log_lines_are_linked_where_settings_say_where_they_are(
    failed: Execution, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated = observability_settings().model_copy(
        update={
            "trace_url": "https://t.example/{trace}",
            "log_url": "https://l.example/?q={key}&n={execution}",
        }
    )
    monkeypatch.setattr(outside_links, "observability_settings", lambda: stated)
    Execution.objects.update(traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
    shown = {link.label: link.address for link in operator.get(own_page(failed)).context["elsewhere"]}
    assert shown == {
        "trace": f"https://t.example/{'a' * 32}", "log lines": f"https://l.example/?q=p0&n={failed.pk}"
    }  # fmt: skip


def test_a_page_costs_the_same_queries_whatever_happened(failed: Execution, operator: Client) -> None:
    few = statements_of(operator, failed)
    for _ in range(3):
        executions.retry([failed], ANN)
        executions.cancel([failed], ANN)
    assert statements_of(operator, failed) == few


def test_a_waiting_page_costs_the_same_queries_for_two_ahead_of_it_and_for_thirty(
    probes: Any, operator: Client, make_worker: Any
) -> None:
    make_worker()
    *_, last = [*probes(1, limit_key="host:a"), *probes(2, limit_key="host:b")]
    statements_of(operator, last)  # what a process remembers is known from here on
    few = statements_of(operator, last)
    for host in "cdefghij":
        probes(3, limit_key=f"host:{host}")
    assert statements_of(operator, last) == few <= 19


def statements_of(operator: Client, execution: Execution) -> int:
    with CaptureQueriesContext(connection) as captured:
        text_of(operator.get(own_page(execution)))
    return len(captured)


def test_a_waiting_page_shows_its_reason_position_and_blocking_limits(
    probes: Any, operator: Client, make_worker: Any
) -> None:
    make_worker()
    controls.pause("host:a", ANN)
    _, second = probes(2, limit_key="host:a")
    text = text_of(operator.get(own_page(second)))
    assert "host:a paused by ann: the server is back" in text
    assert "position 2 in prep.normal" in text
    (taken,) = [limit for limit in operator.get(own_page(second)).context["limits"] if limit.name == "host:a"]
    assert "paused by ann" in taken.blocks
    assert taken.address in text


def test_a_running_page_shows_worker_lease_and_who_cancelled_it(
    played: Any, probes: Any, operator: Client
) -> None:
    worker = played(slots=1, name="w@one")
    (execution,) = probes(1)
    worker.begin_all()
    assert "Runs on" in text_of(operator.get(own_page(execution)))
    text = press(operator, execution, "cancel", reason="wrong paper")
    assert "was cancelled, or cancellation was requested" in text
    assert "Cancellation requested by sam" in text


@pytest.mark.parametrize(
    ("permissions", "shown"),
    [(["view_payload"], "<code>order=&quot;acme&quot;</code>, until 20"), ([], "of its payload, until 20")],
)
def test_a_unique_key_is_shown_as_far_as_the_payload_may_be_read(
    permissions: list[str], shown: str, staff: Callable[..., Client], sent: list[Any]
) -> None:
    enqueue("probe", "a", {"order": "acme"}, unique=Unique(keys=["order"], within="1h"))
    text = text_of(staff("view_execution", *permissions).get(own_page(Execution.objects.get())))
    assert shown in text
    assert ("acme" in text) == bool(permissions)


def test_payloads_are_shown_only_to_those_who_may_read_them(
    failed: Execution, staff: Callable[..., Client]
) -> None:
    Execution.objects.update(context={"fetch": {"url": "https://a.example/p.pdf?sig=hidden1"}})
    viewer = staff("view_execution")
    text = text_of(viewer.get(own_page(failed)))
    assert "a.example" not in text
    assert "with the permission" in text


def test_edits_of_a_payload_are_shown_only_to_those_who_may_read_payloads(
    failed: Execution, staff: Callable[..., Client]
) -> None:
    executions.retry_with_payload(failed, {"url": "https://b.example/"}, ANN)
    viewer = staff("view_auditentry", "view_execution")
    assert "b.example" not in text_of(viewer.get(page("auditentry")))
    assert "b.example" not in text_of(viewer.get(own_page(failed)))
    change = AuditEntry.objects.get(action=executions.EDIT_PAYLOAD)
    refused = viewer.get(page("auditentry", change.pk, view="change"), follow=True)
    assert "b.example" not in text_of(refused)


def test_the_query_of_a_signed_link_is_never_shown(failed: Execution, operator: Client) -> None:
    signed = "see https://a.example/p.pdf?X-Amz-Signature=hidden1&y=2#z and https://b.example/x"
    Execution.objects.update(context={"fetch": {"url": signed}}, payload={signed: [signed]})
    text = text_of(operator.get(own_page(failed)))
    assert "hidden1" not in text
    assert "https://a.example/p.pdf?***" in text
    assert "https://b.example/x" in text


def test_links_lead_to_what_was_made_and_to_its_batch(
    failed: Execution, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = replace(get_flow("probe"), artifacts=lambda key: (Link("PDF", f"/files/{key}.pdf"),))
    monkeypatch.setitem(flow._flows, "probe", made)
    batch = Batch.objects.create(name="spring", flow="probe")
    trace = "0af7651916cd43dd8448eb211c80319c"
    Execution.objects.update(batch=batch, batch_seq=4, traceparent=f"00-{trace}-b7ad6b7169203331-01")
    text = text_of(operator.get(own_page(failed)))
    assert '<a href="/files/p0.pdf">PDF</a>' in text
    assert trace in text
    assert "number 4" in text


def test_an_edited_payload_keeps_what_was_masked_and_is_recorded(failed: Execution, operator: Client) -> None:
    secret = "https://a.example/p.pdf?sig=hidden1"
    Execution.objects.update(payload={"limit_key": "host:a", "url": secret})
    form = operator.get(own_page(failed)).context["offered"]["retry_with_payload"].form
    shown = json.loads(form.initial["payload"])
    assert "hidden1" not in shown["url"]
    typed = json.dumps({**shown, "limit_key": "host:b"})
    text = press(operator, failed, "retry_with_payload", payload=typed, reason="another host")
    assert "retried with another payload" in text
    again = Execution.objects.get()
    assert again.payload == {"limit_key": "host:b", "url": secret}
    assert not AuditEntry.objects.filter(after__icontains="hidden1").exists()


REFUSED = (
    ('{"a": 1', "line 1, column 8"),
    ("[1]", "a payload is a JSON object"),
    ('{"a": 1, "a": 2}', "occurs twice"),
    ('{"weight": "heavy"}', "cannot work with this payload"),
    ('{"url": "***"}', "holds a mask"),
    ('{"a": "\\u0000"}', "NUL"),
)


def test_a_payload_that_cannot_be_used_is_refused_and_stays_as_typed(
    failed: Execution, operator: Client
) -> None:
    url = page("execution", failed.pk, view="action")
    for typed, says in REFUSED:
        posted = {"act": "retry_with_payload", "payload": typed, "reason": "x"}
        response = operator.post(url, posted)
        assert says in text_of(response)
        refused = response.context["offered"]["retry_with_payload"].form
        assert refused["payload"].value() == typed
    assert Execution.objects.get().state == State.FAILED


def test_a_destructive_button_requires_a_reason(failed: Execution, operator: Client) -> None:
    assert "This field is required" in press(operator, failed, "skip")
    assert Execution.objects.get().state == State.FAILED
    press(operator, failed, "skip", reason="nobody wants it")
    assert Execution.objects.get().wait_reason == "skipped by sam: nobody wants it"


def test_buttons_reschedule_prioritise_and_restart(failed: Execution, probes: Any, operator: Client) -> None:
    press(operator, failed, "retry_from_start", reason="again")
    assert Execution.objects.get().state in (State.WAITING, State.LEASED)
    press(operator, failed, "set_priority", priority="0")
    press(operator, failed, "reschedule", when="2029-01-02T06:00")
    put_off = Execution.objects.get()
    assert put_off.run_after == datetime(2029, 1, 2, 6, tzinfo=UTC)
    assert put_off.priority == HIGH
    assert [c.action for c in AuditEntry.objects.filter(source="admin").order_by("pk")] == [
        "retry from start", "set priority", "reschedule",
    ]  # fmt: skip


def test_a_button_pressed_too_late_shows_the_current_state(failed: Execution, operator: Client) -> None:
    Execution.objects.update(state=State.DONE, finished_at=database_now())
    assert "Nothing was changed: probe/p0 is done now" in press(operator, failed, "retry")


def test_reading_and_wrong_addresses_change_nothing(failed: Execution, operator: Client) -> None:
    url = page("execution", failed.pk, view="action")
    assert operator.get(url, {"act": "retry"}).status_code == 405
    assert operator.post(url, {"act": "nonsense"}).status_code == 403
    gone = reverse("admin:queuemgr_execution_action", args=[10**9])
    assert "There is no execution" in text_of(operator.post(gone, {"act": "retry"}, follow=True))
    assert Execution.objects.get().state == State.FAILED


def test_a_payload_is_offered_for_editing_only_to_who_may_see_it(
    failed: Execution, staff: Callable[..., Client]
) -> None:
    client = staff("view_execution", "edit_payload", "retry_execution")
    text = text_of(client.get(own_page(failed)))
    assert "Retry" in text
    assert "Retry with an edited payload" not in text
    act = {"act": "retry_with_payload", "payload": "{}"}
    assert client.post(page("execution", failed.pk, view="action"), act).status_code == 403
    failed.refresh_from_db()
    assert failed.state == State.FAILED
