"""What the admin promises its operators: sight of everything, a record of every act, and speed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from queuemgr.flows import flow
from queuemgr.flows.flow import HIGH, LOW, NORMAL, NewExecution, get_flow
from queuemgr.lifecycle.enqueue import enqueue, enqueue_many
from queuemgr.models import (
    Attempt,
    AuditEntry,
    DailyUsage,
    Execution,
    Limit,
    Outcome,
    Queue,
    RetryPolicy,
    State,
)
from queuemgr.models import Worker as WorkerRow
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from queuemgr.web.admin import read_only_admin
from tests.integration.web.admin.admin_pages import act, figures_of, page, text_of

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>"
NEVER_EDITED = ("execution", "attempt", "auditentry", "dailyusage", "worker")
ALL_MODELS = (*NEVER_EDITED, "queue", "limit", "retrypolicy")


@pytest.fixture(autouse=True)
def _queues() -> None:
    limit_rows.sync()


def a_failed(key: str, kind: str = "not_pdf", message: str = "it is a web page") -> Execution:
    enqueue("probe", key)
    execution = Execution.objects.get(key=key)
    Execution.objects.filter(pk=execution.pk).update(
        state=State.FAILED, finished_at=timezone.now(), route=None,
        error_kind=kind, error_message=message,
    )  # fmt: skip
    an_attempt(execution, error_kind=kind, error_message=message)
    return Execution.objects.get(pk=execution.pk)


def an_attempt(execution: Execution, outcome: str = Outcome.FAILED, **columns: Any) -> Attempt:
    now = timezone.now()
    return Attempt.objects.create(
        lease_id=uuid4(), execution=execution, phase=execution.phase, step=execution.step,
        priority=execution.priority, cost=0, worker="w@test", leased_at=now, started_at=now,
        ended_at=now + timedelta(seconds=2), outcome=outcome, **columns,
    )  # fmt: skip


def act_on_all(client: Client, action: str, query: str = "", **more: Any) -> Any:
    """Tick the first execution, then "select all across pages"."""
    first = Execution.objects.order_by("pk").values_list("pk", flat=True)[0]
    chosen = {"_selected_action": [first], "select_across": "1", "action": action, **more}
    return client.post(page("execution") + query, chosen, follow=True)


def queries_of(client: Client, url: str) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        text_of(client.get(url))
    return [query["sql"] for query in captured.captured_queries]


def test_the_list_shows_status_error_and_tries(operator: Client) -> None:
    failed = a_failed("doc:1")
    an_attempt(failed, Outcome.RETRIED, error_kind="not_pdf")
    an_attempt(failed, Outcome.SNOOZED)
    row = operator.get(page("execution")).context["cl"].result_list[0]
    assert (row.status, row.error_kind, row.tries) == ("failed", "not_pdf", 2)


def test_the_list_says_why_each_execution_waits(operator: Client) -> None:
    enqueue("probe", "doc:1")
    assert "no live worker consumes prep.normal" in text_of(operator.get(page("execution")))


def test_the_list_costs_the_same_queries_for_five_rows_and_for_a_hundred(operator: Client) -> None:
    enqueue_many("probe", [NewExecution(f"doc:{n}") for n in range(5)])
    queries_of(operator, page("execution"))  # what a process remembers is known from here on
    few = queries_of(operator, page("execution"))
    assert len(few) <= 15
    enqueue_many("probe", [NewExecution(f"more:{n}") for n in range(95)])
    for execution in Execution.objects.all():
        an_attempt(execution, Outcome.RETRIED)
    assert len(queries_of(operator, page("execution"))) == len(few)


@pytest.mark.parametrize("model", ["queue", "limit", "worker", "attempt", "retrypolicy"])
def test_no_list_asks_once_a_row(operator: Client, model: str, make_worker: Callable[..., WorkerRow]) -> None:
    make_worker()
    enqueue("probe", "doc:1", {"limit_key": "host:a.example:443"})
    an_attempt(Execution.objects.get())
    few = queries_of(operator, page(model))
    for n in range(20):
        make_worker(name=f"w{n}@test")
        Limit.objects.create(name=f"host:{n}.example:443")
        RetryPolicy.objects.create(kind=f"kind{n}", max_attempts=2)
        Queue.objects.create(name=f"extra{n}.high", phase=f"extra{n}", priority=HIGH)
        an_attempt(Execution.objects.get())
    assert len(queries_of(operator, page(model))) == len(few)


@pytest.mark.parametrize("query", ["", "?status=failed", "?q=doc", "?priority=high", "?age=older"])
def test_no_query_of_a_list_counts_without_an_end(operator: Client, query: str) -> None:
    a_failed("doc:1")
    for model in ("execution", "attempt"):
        url = page(model) + (query if model == "execution" else "")
        for statement in queries_of(operator, url):
            counts = re.search(r"COUNT\(.*queuemgr_(execution|attempt)\b", statement, re.S)
            assert not counts or re.search(r"LIMIT|IN \(", statement), statement


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("error_kind=not_pdf", 1),
        ("error_kind=not_pdf&outcome__exact=failed", 1),
        ("error_kind=not_pdf&outcome__in=done,failed", 1),
        ("error_kind=not_pdf&outcome__exact=done", 0),
        ("error_kind=not_pdf&outcome__in=done,skipped", 0),
        ("outcome__in=done,skipped", 1),
    ],
)
def test_errors_of_attempts_that_ended_well_are_not_looked_for(
    operator: Client, query: str, found: int
) -> None:
    an_attempt(a_failed("doc:1"), Outcome.DONE)
    operator.get(page("attempt"))  # what a process remembers is known from here on
    statements = queries_of(operator, f"{page('attempt')}?{query}")
    assert operator.get(f"{page('attempt')}?{query}").context["cl"].result_count == found
    looked = [s for s in statements if re.search(r"error_kind\" = 'not_pdf'", s)]
    assert bool(looked) == bool(found and "error_kind" in query)


def test_a_count_past_the_bound_says_so(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_only_admin, "MAX_COUNT", 4)
    enqueue_many("probe", [NewExecution(f"doc:{n}") for n in range(9)])
    text = text_of(operator.get(page("execution")))
    assert "4+ executions" in text
    assert "9 executions" not in text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("status=pending", {"waits"}),
        ("status=prepped", {"paid"}),
        ("status=failed", {"failed"}),
        ("status=nonsense", set()),
        ("flow=probe", {"waits", "paid", "failed"}),
        ("flow=other", set()),
        ("phase=expensive", {"paid"}),
        ("error_kind=not_pdf", {"failed"}),
        ("priority=high", {"paid"}),
        ("priority=nonsense", set()),
        ("age=hour", {"waits", "paid"}),
        ("age=day", {"waits", "paid"}),
        ("age=older", {"failed"}),
    ],
)
def test_filters_find_what_they_name(operator: Client, query: str, found: set[str]) -> None:
    a_failed("failed")
    Execution.objects.update(created_at=timezone.now() - timedelta(days=2))
    enqueue("probe", "waits")
    enqueue("probe", "paid", {"phase": "expensive"}, priority=HIGH)
    rows = operator.get(f"{page('execution')}?{query}").context["cl"].result_list
    assert {row.key for row in rows} == found


def test_filters_offer_the_kinds_of_error_there_are(operator: Client) -> None:
    for kind in ("timeout", "not_pdf", "timeout"):
        a_failed(f"{kind}:{Execution.objects.count()}", kind)
    text = text_of(operator.get(page("execution")))
    assert re.findall(r'<option value="(not_pdf|timeout)"', text) == ["not_pdf", "timeout"]


@pytest.mark.parametrize(
    ("term", "found"),
    [("arxiv:2101", 2), ("arxiv:2101.00001", 1), ("2101", 0), ("arxiv:2101.0000%", 0), ("", 3)],
)
def test_search_finds_keys_by_their_beginning(operator: Client, term: str, found: int) -> None:
    for key in ("arxiv:2101.00001", "arxiv:2101.00002", "doi:10.1/x"):
        enqueue("probe", key)
    rows = operator.get(page("execution"), {"q": term}).context["cl"].result_list
    assert len(rows) == found


@pytest.mark.only_on("sqlite", why="PostgreSQL uses no index on a table as small as a test's")
def test_search_goes_by_the_unique_index(operator: Client) -> None:
    enqueue("probe", "arxiv:1")
    queries = queries_of(operator, page("execution") + "?q=arxiv")
    listing = next(q for q in queries if "arxiv" in q and "COUNT(" not in q)
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN QUERY PLAN " + listing.replace("%", "%%"))
        plan = " ".join(str(step[-1]) for step in cursor.fetchall())
    assert "(flow=? AND key>? AND key<?)" in plan


def test_hostile_text_is_shown_and_never_run(operator: Client) -> None:
    execution = a_failed(HOSTILE, "x<b>", HOSTILE)
    Execution.objects.update(payload={HOSTILE: HOSTILE}, context={HOSTILE: HOSTILE})
    controls.pause("prep.high", Actor(HOSTILE, "command", HOSTILE))
    changes = AuditEntry.objects.all()
    for url in (
        page("execution"), page("execution", execution.pk, view="change"), page("attempt"),
        page("queue"), page("auditentry"), page("auditentry", changes[0].pk, view="change"),
    ):  # fmt: skip
        text = text_of(operator.get(url))
        assert "<script>alert" not in text
        assert "&lt;script&gt;" in text


def test_the_detail_page_shows_attempts_payload_and_why(operator: Client) -> None:
    execution = a_failed("doc:1")
    Execution.objects.update(payload={"given": "a file"}, context={"learnt": "its title"})
    text = text_of(operator.get(page("execution", execution.pk, view="change")))
    for shown in ("a file", "its title", "failed: it is a web page", "w@test", "2.0 s"):
        assert shown in text


def test_the_detail_page_masks_passwords_and_shows_long_payloads_whole(operator: Client) -> None:
    execution = a_failed("doc:1")
    texts = [f"part {n} " + "x" * 100 for n in range(50)]
    payload = {"url": "https://user:hunter2@example.org/a.pdf", "texts": texts}
    Execution.objects.update(payload=payload)
    text = text_of(operator.get(page("execution", execution.pk, view="change")))
    assert "hunter2" not in text
    assert "part 49" in text


def test_a_flows_own_page_about_an_item_is_linked(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    linked = replace(get_flow("probe"), link=lambda key: f"/documents/{key}")
    monkeypatch.setitem(flow._flows, "probe", linked)
    execution = a_failed("doc:1")
    url = page("execution", execution.pk, view="change")
    assert 'href="/documents/doc:1"' in text_of(operator.get(url))
    Execution.objects.update(flow="gone")
    assert "/documents/doc:1" not in text_of(operator.get(url))


@pytest.mark.parametrize("model", ALL_MODELS)
def test_every_list_and_detail_page_opens(
    operator: Client, model: str, make_worker: Callable[..., WorkerRow]
) -> None:
    make_worker()
    a_failed("doc:1")
    DailyUsage.objects.create(day=timezone.now().date(), limit="phase:prep", spent=3)
    controls.pause("everything", Actor("sam", "command", "night"))
    rows = operator.get(page(model)).context["cl"].result_list
    text_of(operator.get(page(model, rows[0].pk, view="change")))


@pytest.mark.parametrize("model", NEVER_EDITED)
def test_not_even_a_superuser_adds_or_edits_what_is_read_only(
    superuser: Client, model: str, make_worker: Callable[..., WorkerRow]
) -> None:
    make_worker()
    a_failed("doc:1")
    DailyUsage.objects.create(day=timezone.now().date(), limit="phase:prep", spent=3)
    controls.pause("everything", Actor("sam", "command", "night"))
    row = superuser.get(page(model)).context["cl"].result_list[0]
    assert superuser.get(page(model, view="add")).status_code == 403
    assert superuser.post(page(model, row.pk, view="change"), {}).status_code == 403


@pytest.mark.parametrize("model", ALL_MODELS)
def test_not_even_a_superuser_deletes(
    superuser: Client, model: str, make_worker: Callable[..., WorkerRow]
) -> None:
    make_worker()
    a_failed("doc:1")
    DailyUsage.objects.create(day=timezone.now().date(), limit="phase:prep", spent=3)
    controls.pause("everything", Actor("sam", "command", "night"))
    row = superuser.get(page(model)).context["cl"].result_list[0]
    assert superuser.post(page(model, row.pk, view="delete"), {"post": "yes"}).status_code == 403
    act(superuser, model, "delete_selected", row, post="yes")
    assert type(row).objects.filter(pk=row.pk).exists()


def test_retry_lets_failed_work_go_on_and_is_recorded(operator: Client) -> None:
    failed = a_failed("doc:1")
    assert "1 execution was retried" in text_of(act(operator, "execution", "retry", failed))
    failed.refresh_from_db()
    assert failed.state == State.WAITING
    change = AuditEntry.objects.get()
    assert (change.actor, change.source, change.action) == ("sam", "admin", "retry")
    assert change.target == "probe/doc:1"


def test_cancel_stops_what_waits_and_leaves_what_ended(operator: Client) -> None:
    failed = a_failed("doc:1")
    enqueue("probe", "doc:2")
    waiting = Execution.objects.get(key="doc:2")
    text = text_of(act(operator, "execution", "cancel", failed, waiting, reason="x"))
    assert "1 execution was cancelled" in text
    assert {*Execution.objects.values_list("key", "state")} == {
        ("doc:1", State.FAILED), ("doc:2", State.CANCELLED),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("action", "after"), [("raise_priority", [HIGH, HIGH, NORMAL]), ("lower_priority", [NORMAL, LOW, LOW])]
)
def test_priority_moves_one_rung_each(operator: Client, action: str, after: list[int]) -> None:
    for priority in (HIGH, NORMAL, LOW):
        enqueue("probe", f"doc:{priority}", priority=priority)
    text = text_of(act_on_all(operator, action))
    assert "2 executions were" in text
    assert [e.priority for e in Execution.objects.order_by("key")] == after
    assert {c.source for c in AuditEntry.objects.all()} == {"admin"}


def test_an_action_on_nothing_that_can_change_says_so(operator: Client) -> None:
    enqueue("probe", "doc:1")
    text = text_of(act(operator, "execution", "retry", Execution.objects.get()))
    assert "0 executions were retried" in text
    assert not AuditEntry.objects.exists()


def test_work_of_a_flow_that_is_gone_is_left_alone_and_stops_no_other(operator: Client) -> None:
    Execution.objects.filter(pk=a_failed("doc:1").pk).update(flow="gone")
    a_failed("doc:2")
    text = text_of(act(operator, "execution", "retry", *Execution.objects.all()))
    assert "1 execution was retried" in text
    assert [change.target for change in AuditEntry.objects.all()] == ["probe/doc:2"]


def test_actions_reach_across_pages_without_long_statements(staff: Callable[..., Client]) -> None:
    operator = staff("view_execution", "cancel_execution")
    enqueue_many("probe", [NewExecution(f"doc:{n}") for n in range(1_200)])
    enqueue("probe", "other:1")
    longest = 0

    def watch(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        nonlocal longest
        longest = max(longest, len(params or ()))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watch):
        text = text_of(act_on_all(operator, "cancel", "?q=doc", reason="x"))
    assert "1,200 executions were cancelled" in text
    assert [e.key for e in Execution.objects.waiting()] == ["other:1"]
    assert longest < 32_766, "more parameters than SQLite takes in a statement"


@pytest.mark.parametrize("action", ["retry", "cancel", "raise_priority", "lower_priority"])
def test_who_may_only_look_can_neither_see_nor_do(staff: Callable[..., Client], action: str) -> None:
    viewer = staff("view_execution")
    before = a_failed("doc:1")
    enqueue("probe", "doc:2")
    assert 'name="action"' not in text_of(viewer.get(page("execution")))
    act(viewer, "execution", action, *Execution.objects.all())
    act_on_all(viewer, action)
    after = Execution.objects.get(pk=before.pk)
    assert (after.state, after.priority) == (before.state, before.priority)
    assert Execution.objects.get(key="doc:2").state == State.WAITING
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("model", ["queue", "limit"])
def test_who_may_only_look_can_neither_pause_nor_edit(staff: Callable[..., Client], model: str) -> None:
    viewer = staff(f"view_{model}")
    row = viewer.get(page(model)).context["cl"].result_list[0]
    assert 'name="action"' not in text_of(viewer.get(page(model)))
    act(viewer, model, "pause", row, reason="because")
    assert viewer.post(page(model, row.pk, view="change"), {"max_running": 1}).status_code == 403
    assert viewer.get(page(model, view="add")).status_code == 403
    row.refresh_from_db()
    assert row.paused_at is None
    assert not AuditEntry.objects.exists()


def test_reading_never_changes_anything(operator: Client) -> None:
    failed = a_failed("doc:1")
    queue = Queue.objects.get(name="prep.high")
    for model, row, action in (("execution", failed, "retry"), ("queue", queue, "pause")):
        operator.get(page(model), {"action": action, "_selected_action": row.pk, "reason": "x"})
    failed.refresh_from_db()
    queue.refresh_from_db()
    assert (failed.state, queue.paused_at) == (State.FAILED, None)
    assert not AuditEntry.objects.exists()


def test_pausing_asks_for_a_reason_first(operator: Client) -> None:
    queue = Queue.objects.get(name="prep.normal")
    assert 'name="reason"' in text_of(act(operator, "queue", "pause", queue))
    assert "This field is required" in text_of(act(operator, "queue", "pause", queue, reason=""))
    queue.refresh_from_db()
    assert queue.paused_at is None


def test_the_reason_of_a_pause_is_what_its_work_waits_for(operator: Client) -> None:
    enqueue("probe", "doc:1")
    queue = Queue.objects.get(name="prep.normal")
    act(operator, "queue", "pause", queue, reason="the disk is full")
    assert "paused by sam: the disk is full" in text_of(operator.get(page("execution")))
    assert "paused by sam: the disk is full" in text_of(operator.get(page("queue")))
    change = AuditEntry.objects.get()
    assert (change.action, change.target, change.reason) == (
        "pause", "prep.normal", "the disk is full",
    )  # fmt: skip


def test_a_pause_may_end_by_itself_but_not_in_the_past(operator: Client) -> None:
    queue = Queue.objects.get(name="prep.normal")
    past = act(operator, "queue", "pause", queue, reason="tea", until="2020-01-01T10:00")
    assert "This time has passed" in text_of(past)
    far = act(operator, "queue", "pause", queue, reason="tea", until="2999-01-01T10:00")
    assert "more than ten years ahead" in text_of(far)
    year = timezone.now().year + 1
    act(operator, "queue", "pause", queue, reason="tea", until=f"{year}-01-01T10:00")
    queue.refresh_from_db()
    assert queue.paused_until is not None
    assert f"until {year}-01-01 10:00 UTC" in text_of(operator.get(page("queue")))


@pytest.mark.parametrize(("model", "name"), [("queue", "prep.normal"), ("limit", "host:*")])
def test_resume_undoes_a_pause(operator: Client, model: str, name: str) -> None:
    row = {"queue": Queue, "limit": Limit}[model].objects.get(name=name)
    act(operator, model, "pause", row, reason="tea")
    assert f"Resumed: {name}" in text_of(act(operator, model, "resume", row))
    row.refresh_from_db()
    assert row.paused_at is None
    assert "None of these was paused" in text_of(act(operator, model, "resume", row))


def test_queues_say_what_waits_and_what_is_held(
    operator: Client, make_worker: Callable[..., WorkerRow], sent: list[Any]
) -> None:
    make_worker(slots=2)
    enqueue_many("probe", [NewExecution(f"doc:{n}") for n in range(5)])
    from queuemgr.lifecycle.dispatch import dispatch

    dispatch()
    rows = {row.name: row for row in operator.get(page("queue")).context["cl"].result_list}
    assert (rows["prep.normal"].waiting, rows["prep.normal"].held) == ("3 / no cap", "2")
    assert (rows["prep.high"].waiting, rows["prep.high"].held) == ("0 / no cap", "0")


def test_editing_a_limit_is_recorded_with_before_after_and_why(operator: Client) -> None:
    limit = Limit.objects.get(name="phase:prep")
    figures = figures_of(limit, max_running=7, reserved_high=2, reason="slow disks")
    text_of(operator.post(page("limit", limit.pk, view="change"), figures, follow=True))
    change = AuditEntry.objects.get()
    assert (change.actor, change.source, change.reason) == ("sam", "admin", "slow disks")
    assert change.before == {"max_running": 0, "reserved_high": 0}
    assert change.after == {"max_running": 7, "reserved_high": 2}
    limit.refresh_from_db()
    assert (limit.max_running, limit.reserved_high) == (7, 2)


@pytest.mark.parametrize(
    ("name", "figures", "complaint"),
    [
        ("phase:prep", {"max_running": 2, "reserved_high": 2}, "reserved_high must be smaller"),
        ("phase:prep", {"max_running": -1}, "greater than or equal to 0"),
        ("cpu", {"daily_budget": 5}, "A token counts what runs, not requests"),
        ("host:*", {"rate": "3 a second"}, "is not understood; write it like"),
        ("host:*", {"budget_zone": "Europe/Bonn"}, "is not known; use an IANA name"),
        ("host:*", {"reserved_for_high_percent": 101}, "Percents must be 0 to 100"),
    ],
)
def test_impossible_figures_are_refused_with_the_reason(
    operator: Client, name: str, figures: dict[str, Any], complaint: str
) -> None:
    limit = Limit.objects.get(name=name)
    posted = figures_of(limit, **{"max_running": 4, **figures})
    assert complaint in text_of(operator.post(page("limit", limit.pk, view="change"), posted))
    assert not AuditEntry.objects.exists()


def test_saving_a_limit_unchanged_records_nothing(operator: Client) -> None:
    limit = Limit.objects.get(name="host:*")
    url = page("limit", limit.pk, view="change")
    text_of(operator.post(url, figures_of(limit), follow=True))
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("name", ["host:arxiv.org:443", "disk:*", "host:[::1]:80", "gpu"])
def test_a_limit_may_be_added_for_a_key_a_pattern_or_a_token(operator: Client, name: str) -> None:
    posted = figures_of(name=name, max_running=3, reason="asked to")
    text_of(operator.post(page("limit", view="add"), posted, follow=True))
    assert Limit.objects.get(name=name).max_running == 3
    assert (AuditEntry.objects.get().target, AuditEntry.objects.get().reason) == (name, "asked to")


@pytest.mark.parametrize(
    "name",
    [
        "prep",
        "phase:nonsense",
        "phase:*",
        "*",
        "host:",
        "ho*st:a",
        "host:a b",
        "fleet ",
        "virtual_time",
        "prep.high",
        "cpu=2",
    ],
)
def test_a_limit_no_work_could_run_under_is_not_added(operator: Client, name: str) -> None:
    posted = figures_of(name=name, max_running=3)
    before = Limit.objects.count()
    text = text_of(operator.post(page("limit", view="add"), posted))
    assert "Not a limit" in text or "already exists" in text
    assert Limit.objects.count() == before


def test_limits_say_how_full_they_are_and_who_waits(
    operator: Client, make_worker: Callable[..., WorkerRow], sent: list[Any]
) -> None:
    from queuemgr.lifecycle.dispatch import dispatch

    make_worker(slots=8)
    controls.edit_limit("host:*", Actor("sam", "command"), max_running=2)
    controls.edit_limit("phase:wrap", Actor("sam", "command"), daily_budget=1)
    for n in range(5):
        enqueue("probe", f"doc:{n}", {"limit_key": "host:a.example:443"})
    for n in range(2):
        enqueue("probe", f"paid:{n}", {"phase": "wrap", "requests": 1})
    dispatch()
    rows = {row.name: row for row in operator.get(page("limit")).context["cl"].result_list}
    assert rows["host:*"].in_use == "1 key, the fullest 2 / 2"
    assert rows["host:*"].waits == "3 wait: host:a.example:443 2/2"
    assert rows["phase:wrap"].limit_status.budget().startswith("0 and 1 reserved of 1\nresets ")
    assert rows["phase:wrap"].waits.startswith("1 wait: phase:wrap budget 0/1 spent")
    assert rows["fleet"].in_use == "3 / 200"


def test_workers_are_live_draining_or_gone(operator: Client, make_worker: Callable[..., WorkerRow]) -> None:
    now = timezone.now()
    make_worker(name="live")
    WorkerRow.objects.filter(pk=make_worker(name="draining").pk).update(draining_at=now)
    WorkerRow.objects.filter(pk=make_worker(name="gone").pk).update(seen_at=now - timedelta(hours=1))
    rows = operator.get(page("worker")).context["cl"].result_list
    assert {row.name: row.condition for row in rows} == {
        "live": "live", "draining": "draining", "gone": "gone",
    }  # fmt: skip


def test_changes_can_be_filtered_by_who_did_what_through_what(operator: Client) -> None:
    controls.pause("prep.high", Actor("ann", "command"))
    controls.resume("prep.high", Actor("bob", "api"))
    for query in ("actor=ann", "action=pause", "source=command"):
        rows = operator.get(f"{page('auditentry')}?{query}").context["cl"].result_list
        assert [row.actor for row in rows] == ["ann"]


def test_the_history_of_a_row_is_the_record_of_changes_to_it(operator: Client) -> None:
    controls.pause("prep.high", Actor("ann", "command"))
    controls.pause("prep.low", Actor("bob", "command"))
    queue = Queue.objects.get(name="prep.high")
    response = operator.get(page("queue", queue.pk, view="history"), follow=True)
    assert [row.actor for row in response.context["cl"].result_list] == ["ann"]


def test_the_history_is_shown_only_to_those_who_may_see_the_row(staff: Callable[..., Client]) -> None:
    queue = Queue.objects.get(name="prep.high")
    url = page("queue", queue.pk, view="history")
    assert staff("view_limit").get(url).status_code == 403


def test_attempts_are_found_by_their_executions_key(operator: Client) -> None:
    a_failed("doc:1")
    a_failed("doc:2")
    rows = operator.get(page("attempt"), {"q": "doc:1"}).context["cl"].result_list
    assert [row.execution.key for row in rows] == ["doc:1"]
