"""The pages of executions: finding them, the story of each, and acting on one or on all that match."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import NoReverseMatch, reverse

from queuemgr import controls, flow, steering
from queuemgr.admin import execution_filters, executions
from queuemgr.admin.acts import ACTS, OF_A_LIST
from queuemgr.bulk_verbs import VERBS
from queuemgr.controls import By
from queuemgr.enqueue import enqueue_many
from queuemgr.fleet_lock import database_now
from queuemgr.flow import HIGH, Intake, Link
from queuemgr.models import Attempt, Batch, Change, Execution, State
from queuemgr.outcomes import Failed, Snoozed
from queuemgr.probe import PROBE
from tests.integration.admin_pages import act, page, text_of
from tests.integration.conftest import let_time_pass

pytestmark = pytest.mark.django_db(transaction=True)
ANN = By("ann", "command", "the server is back")


def own_page(execution: Execution) -> str:
    return page("execution", execution.pk, view="change")


def press(client: Client, execution: Execution, name: str, **typed: Any) -> str:
    """Press a button of an execution's own page; what comes back as text."""
    url = page("execution", execution.pk, view="act")
    return text_of(client.post(url, {"act": name, **typed}, follow=True))


def listed(client: Client, **query: Any) -> list[str]:
    rows = client.get(page("execution"), query).context["cl"].result_list
    return sorted(row.key for row in rows)


@pytest.fixture
def failed(played: Any, probes: Any) -> Execution:
    """It waited, was tried twice, with a person's retry in between, and failed for good at host:a."""
    worker = played(slots=1, name="w@one")
    (execution,) = probes(1, limit_key="host:a")
    (grant,) = worker.begin_all()
    worker.end(grant, Snoozed(60, "the host asked for a minute"), next_too=False)
    let_time_pass(Execution.objects.all())
    steering.cancel([execution], ANN)
    steering.retry([execution], ANN)
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("not_found", "404 for page Seven"))
    return Execution.objects.get(pk=execution.pk)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"limit": "host:a"}, ["p0"]),
        ({"limit": "host:b"}, ["other0"]),
        ({"worker": "w@one"}, ["p0"]),
        ({"text": "page seven"}, ["p0"]),
        ({"text": "page seven", "error_kind": "timeout"}, []),
        ({"batch": "spring"}, ["other0"]),
        ({"error_fingerprint": "ab" * 8}, ["p0"]),
        ({"age": "week", "q": "oth"}, ["other0"]),
        ({"limit": "host:a", "status": "pending"}, []),
    ],
)
def test_filters_of_the_list_find_what_they_name(
    failed: Execution, probes: Any, operator: Client, query: dict[str, str], found: list[str]
) -> None:
    (other,) = probes(1, HIGH, prefix="other", limit_key="host:b")
    batch = Batch.objects.create(name="spring", flow="probe")
    Execution.objects.filter(pk=other.pk).update(batch=batch, batch_seq=0)
    Execution.objects.filter(pk=failed.pk).update(error_fingerprint="ab" * 8)
    assert listed(operator, **query) == found


@pytest.mark.parametrize(
    "query", ["status=ready", "batch=winter", "age=young", "limit=" + "x" * 300]
)
def test_a_filter_that_means_nothing_is_named_and_shows_no_rows(
    probes: Any, operator: Client, query: str
) -> None:
    probes(1)
    response = operator.get(f"{page('execution')}?{query}")
    assert "Nothing is shown: " in text_of(response)
    assert not response.context["cl"].result_list


def test_ended_work_is_looked_for_among_the_newest_attempts_only(
    failed: Execution, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page must not read millions of attempts; the form says how far it looks."""
    monkeypatch.setattr(execution_filters, "ATTEMPTS_LOOKED_AT", 1)
    assert listed(operator, limit="host:a") == ["p0"]
    Attempt.objects.create(
        **{
            f.attname: getattr(Attempt.objects.latest("pk"), f.attname)
            for f in Attempt._meta.concrete_fields
            if f.attname not in ("id", "lease_id", "limit_keys")
        },
        lease_id="0" * 32,
        limit_keys="host:z",
    )
    assert listed(operator, limit="host:a") == []


def test_ages_go_by_ids_in_a_long_table_and_meet_the_same(
    operator: Client, sent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times have no index; ids, which grow with them, do."""
    enqueue_many("probe", [Intake(f"doc:{n:02}") for n in range(40)])
    for number, execution in enumerate(Execution.objects.order_by("-pk")):
        then = database_now() - timedelta(hours=number * 6 + 0.5)
        Execution.objects.filter(pk=execution.pk).update(created_at=then)
    everything = {age: listed(operator, age=age) for age in ("hour", "day", "week", "older")}
    monkeypatch.setattr(execution_filters, "COARSE", 2)
    assert {age: listed(operator, age=age) for age in everything} == everything
    assert [len(found) for found in everything.values()] == [1, 4, 28, 36]


def test_the_filter_in_the_address_is_the_bulk_actions(
    probes: Any, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bulk = "queuemgr.admin.execution_filters.reverse"
    monkeypatch.setattr(bulk, lambda name: f"/{name}")
    page_of = operator.get(page("execution"), {"status": "failed", "q": "doc:"})
    assert page_of.context["cl"].bulk_address() == (
        "/admin:bulk_new?status=failed&key_prefix=doc%3A"
    )

    def missing(name: str) -> str:
        raise NoReverseMatch(name)

    monkeypatch.setattr(bulk, missing)
    assert "Act on all that match" not in text_of(operator.get(page("execution") + "?q=doc"))


def test_more_than_a_page_can_wait_for_is_handed_to_a_bulk_action(
    probes: Any, staff: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4-08: no page times out, and nothing is half done."""
    monkeypatch.setattr(executions, "AT_ONCE", 2)
    monkeypatch.setattr(execution_filters, "reverse", lambda name: f"/{name}")
    first, *_ = probes(3)
    client = staff("view_execution", "cancel_execution", "add_bulkaction")
    chosen = {"_selected_action": [first.pk], "select_across": "1", "action": "cancel"}
    response = client.post(page("execution") + "?flow=probe", chosen)
    assert response.headers["Location"] == "/admin:bulk_new?flow=probe&verb=cancel"
    assert Execution.objects.waiting().count() == 3


def test_thousands_chosen_across_pages_pass_the_page_between_without_naming_each(
    staff: Callable[..., Client], sent: Any
) -> None:
    """P4-08: also where there is no bulk action to hand over to. The page between
    posts one row and "all", never more fields than Django takes."""
    operator = staff("view_execution", "skip_execution")
    enqueue_many("probe", [Intake(f"doc:{n}") for n in range(1_200)])
    first = Execution.objects.order_by("pk")[0]
    chosen = {"_selected_action": [first.pk], "select_across": "1", "action": "skip"}
    asking = text_of(operator.post(page("execution"), chosen))
    assert len(re.findall(r'name="_selected_action"', asking)) == 1
    assert "all that match" in asking
    done = operator.post(page("execution"), {**chosen, "reason": "not wanted"}, follow=True)
    assert "1,200 executions were skipped" in text_of(done)
    assert Change.objects.filter(action="skip", reason="not wanted").count() == 1_200


@pytest.mark.parametrize("name", ["cancel", "skip", "retry_from_start", "run_after"])
def test_what_needs_an_answer_asks_first_and_does_nothing_until_then(
    probes: Any, operator: Client, name: str
) -> None:
    (execution,) = probes(1)
    assert 'name="reason"' in text_of(act(operator, "execution", name, execution))
    assert "This field is required" in text_of(
        act(operator, "execution", name, execution, reason="")
    )
    assert Execution.objects.get().state == State.WAITING
    assert not Change.objects.exists()


@pytest.mark.parametrize("act_of", ACTS, ids=lambda act_of: act_of.name)
def test_every_act_needs_its_own_permission(
    probes: Any, staff: Callable[..., Client], act_of: Any
) -> None:
    """P4-09: posted directly, from the list and from the page, by someone who may do all the others."""
    (execution,) = probes(1)
    if act_of.states == frozenset(steering.ENDED_UNDONE):
        steering.cancel([execution], ANN)
    others = {other.permission for other in ACTS} - {act_of.permission}
    client = staff("view_execution", *others)
    before = Execution.objects.values().get(), Change.objects.count()
    typed = {"reason": "x", "when": "2030-01-01T06:00", "priority": "0", "payload": "{}"}
    assert act_of.label + "</" not in text_of(client.get(own_page(execution)))
    url = page("execution", execution.pk, view="act")
    assert client.post(url, {"act": act_of.name, **typed}).status_code == 403
    if act_of in OF_A_LIST:
        act(client, "execution", act_of.name, execution, **typed)
    assert (Execution.objects.values().get(), Change.objects.count()) == before


def test_the_story_tells_tries_waits_and_peoples_acts_in_order(
    failed: Execution, operator: Client
) -> None:
    Attempt.objects.filter(pk=failed.attempts.all()[0].pk).update(
        due_at=failed.created_at - timedelta(seconds=90),
        leased_at=failed.created_at - timedelta(seconds=30),
    )
    told = operator.get(own_page(failed)).context["story"]
    assert [line["entry"].what for line in told if line["entry"].kind != "wait"] == [
        "enqueued", "prep/probe asked to wait", "cancel by ann", "retry by ann", "prep/probe failed",
    ]  # fmt: skip
    (in_line, *_) = [line for line in told if line["entry"].what == "waited in line"]
    assert (in_line["lasted"], in_line["entry"].detail) == ("1 min 0 s", "for room under host:a")
    text = text_of(operator.get(own_page(failed)))
    assert "state waiting; the server is back" in text
    assert "not_found: 404 for page Seven" in text


def test_a_page_costs_the_same_queries_whatever_happened(
    failed: Execution, operator: Client
) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as captured:
            text_of(operator.get(own_page(failed)))
        return len(captured)

    few = asked()
    for _ in range(3):
        steering.retry([failed], ANN)
        steering.cancel([failed], ANN)
    assert asked() == few


def test_a_waiting_page_says_why_where_it_stands_and_what_stops_it(
    probes: Any, operator: Client, make_worker: Any
) -> None:
    make_worker()
    controls.pause("host:a", ANN)
    _, second = probes(2, limit_key="host:a")
    text = text_of(operator.get(own_page(second)))
    assert "host:a paused by ann: the server is back" in text
    assert "position 2 in prep.normal" in text
    (taken,) = [
        limit for limit in operator.get(own_page(second)).context["taken"] if limit.name == "host:a"
    ]
    assert "paused by ann" in taken.stops
    assert taken.address in text


def test_a_running_page_tells_worker_lease_and_who_asked_it_to_stop(
    played: Any, probes: Any, operator: Client
) -> None:
    worker = played(slots=1, name="w@one")
    (execution,) = probes(1)
    worker.begin_all()
    assert "Runs on" in text_of(operator.get(own_page(execution)))
    said = press(operator, execution, "cancel", reason="wrong paper")
    assert "was cancelled or asked to stop" in said
    assert "Asked to stop by sam" in said


def test_payloads_are_shown_only_to_those_who_may_read_them(
    failed: Execution, staff: Callable[..., Client]
) -> None:
    Execution.objects.update(context={"fetch": {"url": "https://a.example/p.pdf?sig=hidden1"}})
    viewer = staff("view_execution")
    text = text_of(viewer.get(own_page(failed)))
    assert "a.example" not in text
    assert "with the permission" in text


def test_a_signed_links_query_is_never_shown(failed: Execution, operator: Client) -> None:
    signed = "see https://a.example/p.pdf?X-Amz-Signature=hidden1&y=2#z and https://b.example/x"
    Execution.objects.update(context={"fetch": {"url": signed}}, payload={signed: [signed]})
    text = text_of(operator.get(own_page(failed)))
    assert "hidden1" not in text
    assert "https://a.example/p.pdf?***" in text
    assert "https://b.example/x" in text


def test_links_lead_to_what_was_made_and_to_its_batch(
    failed: Execution, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = replace(PROBE, artifacts=lambda key: (Link("PDF", f"/files/{key}.pdf"),))
    monkeypatch.setitem(flow._flows, "probe", made)
    batch = Batch.objects.create(name="spring", flow="probe")
    trace = "0af7651916cd43dd8448eb211c80319c"
    Execution.objects.update(
        batch=batch, batch_seq=4, traceparent=f"00-{trace}-b7ad6b7169203331-01"
    )
    text = text_of(operator.get(own_page(failed)))
    assert '<a href="/files/p0.pdf">PDF</a>' in text
    assert trace in text
    assert "number 4" in text


def test_an_edited_payload_keeps_what_was_masked_and_is_recorded(
    failed: Execution, operator: Client
) -> None:
    secret = "https://a.example/p.pdf?sig=hidden1"
    Execution.objects.update(payload={"limit_key": "host:a", "url": secret})
    form = operator.get(own_page(failed)).context["offered"]["retry_with_payload"].form
    shown = json.loads(form.initial["payload"])
    assert "hidden1" not in shown["url"]
    typed = json.dumps({**shown, "limit_key": "host:b"})
    said = press(operator, failed, "retry_with_payload", payload=typed, reason="another host")
    assert "told to go on with another payload" in said
    again = Execution.objects.get()
    assert again.payload == {"limit_key": "host:b", "url": secret}
    assert not Change.objects.filter(after__icontains="hidden1").exists()


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ('{"a": 1', "line 1, column 8"),
        ("[1]", "a payload is a JSON object"),
        ('{"a": 1, "a": 2}', "stands twice"),
        ('{"weight": "heavy"}', "cannot work with this payload"),
        ('{"url": "***"}', "holds a mask"),
        ('{"a": "\\u0000"}', "NUL"),
    ],
)
def test_a_payload_that_cannot_be_used_is_refused_and_stays_as_typed(
    failed: Execution, operator: Client, typed: str, says: str
) -> None:
    response = operator.post(
        page("execution", failed.pk, view="act"),
        {"act": "retry_with_payload", "payload": typed, "reason": "x"},
    )
    assert says in text_of(response)
    refused = response.context["offered"]["retry_with_payload"].form
    assert refused["payload"].value() == typed
    assert Execution.objects.get().state == State.FAILED


def test_a_destructive_button_without_a_reason_asks_for_it(
    failed: Execution, operator: Client
) -> None:
    assert "This field is required" in press(operator, failed, "skip")
    assert Execution.objects.get().state == State.FAILED
    press(operator, failed, "skip", reason="nobody wants it")
    assert Execution.objects.get().wait_reason == "skipped by sam: nobody wants it"


def test_buttons_put_off_prioritise_and_begin_anew(
    failed: Execution, probes: Any, operator: Client
) -> None:
    press(operator, failed, "retry_from_start", reason="again")
    assert Execution.objects.get().state in (State.WAITING, State.LEASED)
    press(operator, failed, "set_priority", priority="0")
    press(operator, failed, "run_after", when="2029-01-02T06:00")
    put_off = Execution.objects.get()
    assert put_off.run_after == datetime(2029, 1, 2, 6, tzinfo=UTC)
    assert put_off.priority == HIGH
    assert [c.action for c in Change.objects.filter(source="admin").order_by("pk")] == [
        "retry from start", "set priority", "set run after",
    ]  # fmt: skip


def test_a_button_pressed_too_late_says_what_became_of_it(
    failed: Execution, operator: Client
) -> None:
    Execution.objects.update(state=State.DONE, finished_at=database_now())
    assert "Nothing was changed: probe/p0 is done now" in press(operator, failed, "retry")


def test_reading_and_wrong_addresses_change_nothing(failed: Execution, operator: Client) -> None:
    url = page("execution", failed.pk, view="act")
    assert operator.get(url, {"act": "retry"}).status_code == 302
    assert operator.post(url, {"act": "nonsense"}).status_code == 302
    gone = reverse("admin:queuemgr_execution_act", args=[10**9])
    assert "There is no execution" in text_of(operator.post(gone, {"act": "retry"}, follow=True))
    assert Execution.objects.get().state == State.FAILED


def test_every_act_on_a_list_hands_over_to_a_verb_bulk_actions_know() -> None:
    assert {act_of.bulk for act_of in OF_A_LIST} <= {*VERBS}
    assert {(act_of.bulk, act_of.permission) for act_of in OF_A_LIST} <= {
        (verb.name, verb.permission) for verb in VERBS.values()
    }
