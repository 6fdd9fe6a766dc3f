"""Webhooks: an end is reported once, in its transaction; signed, retried with one id, paused if hopeless."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from queuemgr.base import redaction, transaction
from queuemgr.base.errors import RuleFailed
from queuemgr.flows.outcomes import Done, Failed, Lost, Result, Skipped, Snoozed
from queuemgr.lifecycle import finish, webhook_events
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.webhook_events import FLOW
from queuemgr.models import Attempt, AuditEntry, Execution, RetryPolicy, State, Webhook
from queuemgr.operations import executions, webhooks
from tests.integration.conftest import PlayedWorker
from tests.integration.webhooks.conftest import ANN, deliver_all, delivered, deliveries, types
from tests.webhook_receiver import SECRET, Receiver

Add = Callable[..., Webhook]
Played = Callable[..., PlayedWorker]

ENDS: list[tuple[Result, list[str]]] = [
    (Done(), ["execution.finished"]),
    (Skipped("nothing to do"), ["execution.finished"]),
    (Failed("network", "refused"), []),
    (Failed("not_found", "no such thing"), ["execution.failed"]),
    (Snoozed(20, "not yet"), []),
    (Lost("its worker died"), ["execution.lost"]),
]


@pytest.mark.parametrize(("result", "expected"), ENDS)
def test_each_end_of_work_is_reported_as_what_it_is(
    result: Result, expected: list[str], add_webhook: Add, played: Played, there: Receiver
) -> None:
    add_webhook()
    worker = played(slots=2)
    enqueue("probe", "a", {"secret": "of the payload"})
    (grant,) = worker.begin_all()
    if isinstance(result, Lost):
        finish.end_abandoned(grant.lease_id, result)
    else:
        worker.end(grant, result, next_too=False)
    assert types() == expected
    deliver_all(worker)
    assert [request.json["type"] for request in there.requests] == expected
    for request in there.requests:
        data = request.json["data"]
        assert (data["key"], data["flow"], data["attempts"]) == ("a", "probe", 1)
        assert data["error_kind"] == (result.kind if isinstance(result, Failed) else None)
        assert b"of the payload" not in request.body and b"no such thing" not in request.body


def test_what_is_rolled_back_is_reported_to_nobody(add_webhook: Add, played: Played) -> None:
    add_webhook()
    worker = played(slots=1)
    enqueue("probe", "a")
    (grant,) = worker.begin_all()
    with pytest.raises(RuntimeError), transaction.atomic():
        finish.finish_leases([Finish(grant.lease_id, Done())], datetime.now(UTC))
        assert types() == ["execution.finished"]
        raise RuntimeError
    assert types() == []


def test_a_delivery_is_signed_so_that_another_implementation_verifies_it(
    add_webhook: Add, played: Played, there: Receiver
) -> None:
    add_webhook()
    webhooks.send_test("ops", ANN)
    deliver_all(played(slots=1))
    (request,) = there.requests
    assert request.is_signed_with(SECRET)
    assert not request.is_signed_with("whsec_" + "A" * 40)
    assert request.id.startswith("msg_") and "." not in request.id
    assert abs(int(request.headers["webhook-timestamp"]) - datetime.now(UTC).timestamp()) < 60
    assert request.headers["content-type"] == "application/json"
    assert request.json["data"] == {"webhook": "ops", "requested_by": "ann"}


def test_a_delivery_that_fails_is_retried_with_the_same_id_until_it_is_accepted(
    add_webhook: Add, played: Played, there: Receiver
) -> None:
    add_webhook()
    there.answers = [500, 302, 404]
    there.headers = {"Location": "http://127.0.0.1:1/elsewhere"}
    webhooks.send_test("ops", ANN)
    deliver_all(played(slots=1))
    assert [request.path for request in there.requests] == ["/hooks"] * 4
    assert len({request.id for request in there.requests}) == 1
    assert all(request.is_signed_with(SECRET) for request in there.requests)
    (row,) = deliveries()
    assert row.state == State.DONE
    messages = list(
        Attempt.objects.filter(error_kind="webhook_failed").values_list("error_message", flat=True)
    )
    assert any("redirects are not followed" in message for message in messages)


def test_retry_after_is_followed(add_webhook: Add, played: Played, there: Receiver) -> None:
    add_webhook()
    there.answers, there.headers = [503], {"Retry-After": "600"}
    webhooks.send_test("ops", ANN)
    deliver_all(played(slots=1), retries=False)
    (row,) = deliveries()
    waits = (row.run_after - datetime.now(UTC)).total_seconds()  # type: ignore[operator]  # it waits
    assert row.state == State.WAITING and 500 < waits < 700


def test_a_delivery_whose_worker_dies_is_made_again_with_the_same_id(
    add_webhook: Add, played: Played, there: Receiver
) -> None:
    add_webhook()
    worker = played(slots=1)
    webhooks.send_test("ops", ANN)
    there.answers = [204]
    (grant,) = worker.begin_all()
    assert delivered(grant) == Done()  # and then the worker died
    finish.end_abandoned(grant.lease_id, Lost("killed"))
    assert types() == ["webhook.test"]  # its loss is reported to nobody
    deliver_all(worker)
    first, second = there.requests
    assert first.id == second.id and first.json == second.json


def test_a_webhook_is_paused_after_ten_deliveries_in_a_row_that_failed_for_good(
    add_webhook: Add, played: Played, there: Receiver
) -> None:
    add_webhook()
    worker = played(slots=8)
    RetryPolicy.objects.filter(kind="webhook_failed").update(max_attempts=1)
    there.answers = [500] * 9 + [204] + [500] * 10
    in_row = []
    for _ in range(20):
        webhooks.send_test("ops", ANN)
        deliver_all(worker)
        in_row.append(Webhook.objects.get().failed_in_row)
    assert in_row == [*range(1, 10), 0, *range(1, 11)]
    row = Webhook.objects.get()
    assert row.paused_at and "10 deliveries in a row failed" in row.pause_sentence()
    entry = AuditEntry.objects.filter(action="pause webhook").get()
    assert (entry.actor, entry.target) == ("webhooks", "ops")
    before = len(deliveries())
    enqueue("probe", "a")
    executions.cancel(Execution.objects.filter(flow="probe"), ANN)
    assert len(deliveries()) == before
    webhooks.resume("ops", ANN)
    assert Webhook.objects.get().failed_in_row == 0


def test_a_receiver_that_answers_410_is_sent_nothing_more(
    add_webhook: Add, played: Played, there: Receiver
) -> None:
    add_webhook()
    there.answers = [410]
    webhooks.send_test("ops", ANN)
    deliver_all(played(slots=1))
    assert len(there.requests) == 1
    assert "410" in Webhook.objects.get().pause_sentence()


def test_deliveries_that_wait_for_a_webhook_that_is_paused_or_gone_are_skipped(
    add_webhook: Add, played: Played, there: Receiver
) -> None:
    add_webhook()
    worker = played(slots=1)
    webhooks.send_test("ops", ANN)
    webhooks.pause("ops", ANN)
    deliver_all(worker)
    webhooks.resume("ops", ANN)
    webhooks.send_test("ops", ANN)
    webhooks.remove("ops", ANN)
    deliver_all(worker)
    assert [row.state for row in deliveries()] == [State.SKIPPED] * 2
    assert there.requests == []


def test_only_the_flows_and_events_that_are_asked_for_are_reported(add_webhook: Add, played: Played) -> None:
    add_webhook("a", flows="shop.*", events="failed")
    add_webhook("b", flows="shop.* pro*", events="cancelled")
    add_webhook("c", flows="probe", events="failed lost")
    enqueue("probe", "x")
    executions.cancel(Execution.objects.filter(flow="probe"), ANN)
    assert [row.key.partition(":")[0] for row in deliveries()] == ["b"]


def test_deliveries_tell_of_nothing_themselves(add_webhook: Add, played: Played, there: Receiver) -> None:
    add_webhook(flows="*")
    webhooks.send_test("ops", ANN)
    deliver_all(played(slots=1))
    webhooks.send_test("ops", ANN)
    executions.cancel(Execution.objects.filter(flow=FLOW), ANN)
    assert types() == ["webhook.test"] * 2


def test_the_result_is_sent_to_a_webhook_that_is_to_have_it(
    add_webhook: Add, played: Played, there: Receiver
) -> None:
    add_webhook(include_result=True)
    add_webhook("other")
    worker = played(slots=2)
    enqueue("probe", "a")
    (grant,) = worker.begin_all()
    worker.end(grant, Done(result={"sum": 3}), next_too=False)
    deliver_all(worker)
    by_result = {"result" in request.json["data"]: request for request in there.requests}
    assert by_result[True].json["data"]["result"] == {"sum": 3}
    assert by_result[False].id == by_result[True].id  # what is reported is the same


def test_a_webhook_whose_address_changes_has_what_waits_delivered_there(
    add_webhook: Add, played: Played, there: Receiver
) -> None:
    add_webhook(url="http://127.0.0.1:9/old")
    worker = played(slots=1)
    webhooks.send_test("ops", ANN)
    webhooks.edit("ops", ANN, url=there.url)
    deliver_all(worker)
    assert [request.path for request in there.requests] == ["/hooks"]
    (row,) = deliveries()
    assert row.state == State.DONE
    assert Attempt.objects.filter(outcome="snoozed").count() == 1


def test_a_full_queue_takes_deliveries_and_limits_hold_for_them(
    add_webhook: Add, played: Played, there: Receiver
) -> None:
    add_webhook()
    worker = played(slots=8)
    for _ in range(5):
        webhooks.send_test("ops", ANN)
    grants = worker.begin_all()
    assert len(grants) == 2  # of one host
    assert {grant.limit_keys for grant in grants} == {f"webhook:127.0.0.1:{there.port} webhooks"}


def test_a_worker_without_the_secret_sends_nothing(add_webhook: Add, played: Played, there: Receiver) -> None:
    add_webhook(secret_name="another")
    webhooks.send_test("ops", ANN)
    deliver_all(played(slots=1), retries=False)
    (row,) = deliveries()
    assert "no secret called another" in row.error_message
    assert there.requests == []


def test_no_row_of_a_webhook_keeps_work_from_ending(add_webhook: Add, played: Played) -> None:
    """Whatever is in it: an earlier release may have taken it, or somebody wrote it into the table."""
    add_webhook()
    made = Webhook.objects.get()
    urls = ["", "no address", f"https://{'a' * 980}/", f"https://{'.'.join(['a' * 60] * 15)}/", "https://[/"]
    flows = ["", "[", "[z-a]", "*" * 500, "*a" * 250, "[!" * 200, "?" * 500, "(?:", "probe"]
    for number, (url, patterns) in enumerate([(url, "*") for url in urls] + [("", each) for each in flows]):
        fields = {"pk": None, "name": f"odd-{number}", "url": url, "flows": patterns}
        for name, value in fields.items():
            setattr(made, name, value)
        made.save(force_insert=True)
    webhook_events.read_again()
    worker = played(slots=2)
    enqueue("probe", "a")
    (grant,) = worker.begin_all()
    worker.end(grant, next_too=False)
    assert Execution.objects.get(flow="probe").state == State.DONE
    assert types().count("execution.finished") > len(urls)


def test_a_delivery_that_cannot_be_enqueued_is_logged_and_the_others_are(
    add_webhook: Add, played: Played, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    add_webhook()
    add_webhook("other", url="http://127.0.0.1:9/")
    real = webhook_events.first_step

    def of_one(flow: str, payload: Any) -> Any:
        if payload["webhook"] == "ops":
            raise RuleFailed("limit keys have 700 characters together")
        return real(flow, payload)

    monkeypatch.setattr(webhook_events, "first_step", of_one)
    worker = played(slots=2)
    enqueue("probe", "a")
    (grant,) = worker.begin_all()
    worker.end(grant, next_too=False)
    assert [row.payload["webhook"] for row in deliveries()] == ["other"]
    assert "execution.finished is not enqueued for webhook ops: limit keys have 700" in caplog.text


def test_a_result_is_sent_without_secrets_of_the_installation(
    add_webhook: Add, played: Played, there: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction, "_secrets", set())
    redaction.register_secret("marked-secret-of-ours")
    add_webhook(include_result=True)
    worker = played(slots=1)
    enqueue("probe", "a")
    (grant,) = worker.begin_all()
    kept = {
        "marked-secret-of-ours": ["x marked-secret-of-ours", 1.5],
        "link": "https://ann:hidden1@a.example",
    }
    worker.end(grant, Done(result=kept), next_too=False)
    deliver_all(worker)
    (request,) = there.requests
    assert request.json["data"]["result"] == {"***": ["x ***", 1.5], "link": "https://***:***@a.example"}
