"""What the pages of limits, policies, queues and usage promise: every field is shown, set, and recorded."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.time_text import moment_text
from queuemgr.lifecycle.begin import begin
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import (
    LIMIT_FIELDS,
    AllowanceClock,
    AllowanceUsage,
    Attempt,
    AuditEntry,
    Execution,
    Lease,
    Limit,
    LimitState,
    Outcome,
    Queue,
    Wakeup,
)
from queuemgr.models import Worker as WorkerRow
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import breakers, limit_rows
from tests.integration.web.admin.admin_pages import act, page, text_of
from tests.usage_rows import spend_requests

pytestmark = pytest.mark.django_db
ANN = Actor("ann", "test", "because")
HOST = "host:a.example:443"


@pytest.fixture(autouse=True)
def _rows(sent: list[Any]) -> None:
    limit_rows.sync()


def listed(client: Client, model: str) -> dict[str, Any]:
    return {str(row): row for row in client.get(page(model)).context["cl"].result_list}


def page_of(client: Client, row: Any) -> str:
    return text_of(client.get(page(row._meta.model_name, row.pk, view="change")))


def open_breaker(name: str, seconds: float = 600, reason: str = "5 x timeout in a row") -> None:
    breakers.open_breaker(name, database_now() + timedelta(seconds=seconds), reason)


def probe(key: str = "doc:1", **payload: Any) -> Execution:
    enqueue("probe", key, payload)
    return Execution.objects.get(key=key)


def test_the_list_says_when_a_rate_lets_the_next_start_through(
    operator: Client, make_worker: Callable[..., WorkerRow]
) -> None:
    controls.edit_limit(HOST, ANN, rate="1/30s")
    worker = make_worker()
    probe(limit_key=HOST)
    dispatch()
    assert listed(operator, "limit")[HOST].limit_status.rate().startswith("1/30s\nnext in 30.0 s")
    begin(list(Lease.objects.values_list("pk", flat=True)), worker.pk)
    AllowanceClock.objects.update(clock=database_now().timestamp())
    assert listed(operator, "limit")[HOST].limit_status.rate() == "1/30s"


def test_a_budget_is_shown_with_its_reset_even_when_nothing_runs_or_waits(operator: Client) -> None:
    zone = "Pacific/Kiritimati"
    controls.edit_limit(HOST, ANN, daily_budget=100, budget_zone=zone)
    today = spend_requests(HOST, 80, zone=zone).starts_at
    spend_requests(HOST, 99, zone=zone, days=-1)
    (spent,) = listed(operator, "limit")[HOST].limit_status.allowances()
    resets = today + timedelta(days=1)
    assert spent == f"requests 80 of 100 per day, resets {resets:%Y-%m-%d} 10:00 UTC", "midnight there"


def test_allowances_are_listed_with_what_is_used_and_edited_in_the_form(operator: Client) -> None:
    controls.edit_limit(HOST, ANN, allowances="0.02 usd/day; 9 tokens in total")
    starts = database_now().replace(hour=0, minute=0, second=0, microsecond=0)
    AllowanceUsage.objects.create(limit=HOST, allowance="usd/day", starts_at=starts, spent=5_000)
    controls.edit_limit("host:*", ANN, allowances="9 tokens/minute")
    rows = listed(operator, "limit")
    assert rows[HOST].limit_status.allowances() == [
        f"usd 0.005 of 0.02 per day, resets {starts + timedelta(days=1):%Y-%m-%d} 00:00 UTC",
        "tokens 0 of 9 in total",
    ]
    cell = str(rows[HOST].allowed)
    assert "usd/day</small> 0.005 of 0.02<svg" in cell and 'width="25"' in cell and "+1 more" in cell
    assert rows["host:*"].allowed == "9 tokens/minute each"
    text = page_of(operator, Limit.objects.get(name=HOST))
    assert "usd 0.005 of 0.02 per day" in text and 'name="allowances"' in text
    assert "How much of each meter may be used in a period" in text
    assert text.count("<polyline") == 4 and "0.015 of 0.02 usd left" in text
    controls.edit_limit(HOST, ANN, allowances="9 tokens/minute; 9 starts/minute")
    text = page_of(operator, Limit.objects.get(name=HOST))
    assert "0 of 9 tokens used in the last 1 min, 0 in the fullest of the last 24 such times" in text
    assert text.count("<polyline") == 1 and text.count("refills all the time") == 1
    assert 'id="what-if"' in text


def test_a_preview_says_what_would_become_of_changed_allowances_and_saves_nothing(operator: Client) -> None:
    controls.edit_limit(HOST, ANN, allowances="0.02 usd/day")
    starts = database_now().replace(hour=0, minute=0, second=0, microsecond=0)
    for name in ("usd/day", "usd/total"):
        begins = starts if name == "usd/day" else datetime(1970, 1, 1, tzinfo=UTC)
        AllowanceUsage.objects.create(limit=HOST, allowance=name, starts_at=begins, spent=5_000)
    row = Limit.objects.get(name=HOST)
    fields = {name: getattr(row, name) for name in LIMIT_FIELDS}
    form = {name: "" if value is None else value for name, value in fields.items()}
    form["allowances"] = "1 usd/day\r\n\r\n9 usd in total"
    page_address = reverse("admin:queuemgr_limit_change", args=[row.pk])
    text = text_of(operator.post(page_address, {**form, "_preview": "1"}))
    assert "not saved yet" in text and "usd 0.005 of 1.00 per day" in text
    assert "usd 0.005 of 9.00 in total" in text, "what was used of it is kept"
    row.refresh_from_db()
    assert row.allowances == "0.02 usd/day"
    assert "not saved yet" not in page_of(operator, row)
    operator.post(page_address, form | {"allowances": row.allowances})
    assert not AuditEntry.objects.filter(target=HOST, source="admin").exists(), "nothing was changed"


def test_an_open_breaker_says_until_when_and_why_and_a_half_open_one_how_many(operator: Client) -> None:
    Limit.objects.create(name=HOST)
    open_breaker("host:b.example:443")
    open_breaker(HOST, -1, "429, Retry-After 30 s")
    rows = listed(operator, "limit")
    half_open = "breaker half-open after 429, Retry-After 30 s: 1 at a time"
    assert rows[HOST].limit_status.breakers() == half_open
    text = rows["host:*"].limit_status.breakers()
    assert text.startswith("host:b.example:443 breaker open until ")
    assert text.endswith(": 5 x timeout in a row")


def test_a_patterns_page_shows_its_keys_the_fullest_first(
    operator: Client, make_worker: Callable[..., WorkerRow]
) -> None:
    make_worker()
    controls.edit_limit("host:*", ANN, max_running=2)
    for n, host in enumerate("abbb"):
        probe(f"doc:{n}", limit_key=f"host:{host}")
    dispatch()
    open_breaker("host:c")
    text = page_of(operator, Limit.objects.get(name="host:*"))
    assert text.index("<td>host:b</td><td>2</td>") < text.index("<td>host:a</td><td>1</td>")
    assert "<td>host:c</td><td>0</td><td>breaker open until " in text
    assert "<td>1</td><td>host:b 2/2</td><td>as soon as something under it ends</td>" in text


@pytest.mark.parametrize("name", ["fleet", "phase:prep", "cpu", HOST])
def test_a_limits_page_shows_the_executions_that_use_it(
    operator: Client, make_worker: Callable[..., WorkerRow], name: str
) -> None:
    Limit.objects.create(name=HOST)
    make_worker()
    probe("holds:it", limit_key=HOST, resources={"cpu": 2, "io": 1})
    probe("holds:it-not", phase="wrap", limit_key="host:b")
    dispatch()
    text = page_of(operator, Limit.objects.get(name=name))
    assert "probe/holds:it</a>" in text
    assert ("probe/holds:it-not</a>" in text) == (name == "fleet")


def test_a_limits_page_says_when_each_thing_it_stops_can_change(
    operator: Client, make_worker: Callable[..., WorkerRow]
) -> None:
    make_worker()
    limit = controls.edit_limit(HOST, ANN, max_running=1)
    controls.pause(HOST, ANN)
    probe(limit_key=HOST)
    open_breaker(HOST)
    text = page_of(operator, limit)
    until = LimitState.objects.get().open_until
    assert until and f"<td>{moment_text(until, database_now())}</td>" in text
    assert "<td>when someone resumes it</td>" in text


def test_an_operator_closes_an_open_breaker_and_is_recorded(operator: Client) -> None:
    limit = Limit.objects.create(name=HOST)
    open_breaker(HOST)
    assert f"Breaker closed: {HOST}." in text_of(act(operator, "limit", "reset_breaker", limit))
    state = LimitState.objects.get(name=HOST)
    assert (state.open_until, state.half_open_starts) == (None, 0)
    change = AuditEntry.objects.get()
    assert (change.actor, change.action, change.target) == ("sam", "reset breaker", HOST)
    assert "No breaker of these was open." in text_of(act(operator, "limit", "reset_breaker", limit))
    assert AuditEntry.objects.count() == 1


def test_an_admin_removes_limits_of_people_and_reads_which_stay_and_why(superuser: Client) -> None:
    own = Limit.objects.create(name=HOST, max_running=3)
    stated = Limit.objects.get(name="host:*")
    text = text_of(act(superuser, "limit", "remove", own, stated))
    assert f"Removed: {HOST}." in text
    assert "is stated by the settings or a flow and stays: edit it" in text
    assert not Limit.objects.filter(name=HOST).exists() and Limit.objects.filter(pk=stated.pk).exists()
    change = AuditEntry.objects.get()
    assert (change.action, change.target) == ("remove limit", HOST)
    assert change.before["row"]["max_running"] == 3, "what undoes it"


def test_a_limit_is_not_removed_by_who_may_not_edit_it(staff: Callable[..., Client]) -> None:
    own = Limit.objects.create(name=HOST, max_running=3)
    act(staff("view_limit", "pause_limit"), "limit", "remove", own)
    assert Limit.objects.filter(name=HOST).exists()


def test_closing_the_breaker_of_a_pattern_closes_those_of_its_own_keys_only(operator: Client) -> None:
    Limit.objects.create(name=HOST)
    for name in (HOST, "host:b", "host:c", "resolver:x"):
        open_breaker(name)
    text = text_of(act(operator, "limit", "reset_breaker", Limit.objects.get(name="host:*")))
    assert "Breaker closed: host:b, host:c." in text
    still_open = LimitState.objects.filter(open_until__isnull=False).order_by("name")
    assert [state.name for state in still_open] == [HOST, "resolver:x"]


@pytest.mark.django_db(transaction=True)
def test_work_parked_on_a_limit_starts_once_its_breaker_is_reset(
    operator: Client, make_worker: Callable[..., WorkerRow]
) -> None:
    limit = Limit.objects.create(name=HOST)
    make_worker()
    open_breaker(HOST)
    probe(limit_key=HOST)
    dispatch()
    assert not Lease.objects.exists()
    act(operator, "limit", "reset_breaker", limit)
    assert Lease.objects.count() == 1
    assert not Wakeup.objects.exists()


def test_a_viewer_sees_the_status_of_limits_and_resets_no_breaker(staff: Callable[..., Client]) -> None:
    viewer = staff("view_limit")
    limit = Limit.objects.create(name=HOST)
    open_breaker(HOST)
    assert "breaker open until" in page_of(viewer, limit)
    act(viewer, "limit", "reset_breaker", limit)
    assert LimitState.objects.get().open_until is not None


def test_hostile_keys_are_shown_and_never_executed(
    operator: Client, make_worker: Callable[..., WorkerRow]
) -> None:
    make_worker()
    hostile = "host:<script>alert(1)</script>"
    controls.edit_limit("host:*", ANN, max_running=1)
    for n in range(2):
        probe(f"doc:{n}", limit_key=hostile)
    dispatch()
    open_breaker(hostile, reason="<script>alert(2)</script>")
    pages = [text_of(operator.get(page(model))) for model in ("limit", "execution")]
    pages.append(page_of(operator, Limit.objects.get(name="host:*")))
    for text in pages:
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(1)" in text


# Retry policies.


# Queues, executions, attempts, usage.


def test_a_queues_cap_is_set_with_its_reason_and_shown_beside_its_depth(operator: Client) -> None:
    queue = Queue.objects.get(name="prep.normal")
    probe()
    url = page("queue", queue.pk, view="change")
    text_of(operator.post(url, {"max_pending": 5000, "reason": "small disk"}, follow=True))
    change = AuditEntry.objects.get()
    assert (change.action, change.reason, change.after) == (
        "edit queue", "small disk", {"max_pending": 5000},
    )  # fmt: skip
    assert "1 / 5,000" in text_of(operator.get(page("queue")))
    assert "1 / 5,000" in page_of(operator, queue)
    text_of(operator.post(url, {"max_pending": 5000, "reason": "again"}, follow=True))
    assert AuditEntry.objects.count() == 1
    assert "greater than or equal to 0" in text_of(operator.post(url, {"max_pending": -1}))


def test_an_execution_shows_its_keys_and_the_earliest_time_it_could_start(
    operator: Client, make_worker: Callable[..., WorkerRow]
) -> None:
    make_worker()
    open_breaker(HOST)
    open_breaker("host:b", 900)
    execution = probe(limit_key=f"{HOST} host:b", weight=3, resources={"cpu": 2})
    until = LimitState.objects.get(name="host:b").open_until
    text = page_of(operator, execution)
    assert f"Not before {until:%Y-%m-%d %H:%M:%S} UTC" in text
    taken = re.findall(
        r'<th scope="row">(?:<a[^>]*>)?([^<]+)(?:</a>)?</th>\s*<td class="sg-number">(\d)</td>', text
    )
    assert {(HOST, "3"), ("host:b", "3"), ("cpu", "2")} <= set(taken)
    assert f"{HOST} host:b" in text_of(operator.get(page("execution")))
    LimitState.objects.update(open_until=None, half_open_starts=0)
    assert "at any time" in page_of(operator, execution)


def test_an_attempt_shows_its_usage_whether_it_was_a_retry_and_how_long_it_waited(operator: Client) -> None:
    now = timezone.now()
    execution = probe()
    attempt = Attempt.objects.create(
        lease_id=uuid4(), execution=execution, phase="prep", step="probe", priority=1, cost=2,
        limit_keys=HOST, resources="cpu=2", weight=3, retrying=True, due_at=now - timedelta(seconds=70),
        leased_at=now, started_at=now, ended_at=now, outcome=Outcome.DONE,
    )  # fmt: skip
    listing = text_of(operator.get(page("attempt") + "?retrying__exact=1"))
    for text in (listing, page_of(operator, attempt)):
        assert "70.0 s" in text
    assert "1 min 10 s" in page_of(operator, execution)
    assert f"{HOST}, weight 3, cpu=2" in listing
    assert "No results found" in text_of(operator.get(page("attempt") + "?retrying__exact=0"))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"fleet", "host:a", "host:b"}),
        ("?limit=host:*", {"host:a", "host:b"}),
        ("?limit=fleet", {"fleet"}),
        ("?q=host:b", {"host:b"}),
        ("?q=ost", set()),
    ],
)
def test_usage_is_found_by_limit(operator: Client, query: str, found: set[str]) -> None:
    controls.edit_limit("host:*", ANN, daily_budget=1234)
    for name in ("fleet", "host:a", "host:b"):
        spend_requests(name, 5)
    response = operator.get(page("allowanceusage") + query)
    assert {row.limit for row in response.context["cl"].result_list} == found
    assert ("1,234" in text_of(response)) == bool({"host:a", "host:b"} & found)
