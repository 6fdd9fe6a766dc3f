"""Lists of executions and attempts: what they show, find, count, and cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from queuemgr.base import process_state
from queuemgr.flows import flow
from queuemgr.flows.flow import HIGH, NewExecution, get_flow
from queuemgr.lifecycle.enqueue import enqueue, enqueue_many
from queuemgr.models import AuditEntry, Execution, Limit, Outcome, Queue, RetryPolicy
from queuemgr.models import Worker as WorkerRow
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from queuemgr.web.admin import execution_filters, read_only_admin
from tests.integration.web.admin.admin_pages import a_failed, an_attempt, page, queries_of, text_of

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _queues() -> None:
    limit_rows.sync()


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
    assert len(few) <= 25  # six of them count the tabs, and one reads saved views
    enqueue_many("probe", [NewExecution(f"more:{n}") for n in range(95)])
    for execution in Execution.objects.all():
        an_attempt(execution, Outcome.RETRIED)
    assert len(queries_of(operator, page("execution"))) == len(few)


@pytest.mark.parametrize("model", ["queue", "limit", "worker", "attempt", "retrypolicy"])
def test_no_list_runs_a_query_per_row(
    operator: Client, model: str, make_worker: Callable[..., WorkerRow]
) -> None:
    make_worker()
    enqueue("probe", "doc:1", {"limit_key": "host:a.example:443"})
    an_attempt(Execution.objects.get())
    few = queries_of(operator, page(model))
    process_state.reset_all()
    for n in range(20):
        make_worker(name=f"w{n}@test")
        Limit.objects.create(name=f"host:{n}.example:443")
        RetryPolicy.objects.create(kind=f"kind{n}", max_attempts=2)
        Queue.objects.create(name=f"extra{n}.high", phase=f"extra{n}", priority=HIGH)
        an_attempt(Execution.objects.get())
    assert len(queries_of(operator, page(model))) == len(few)


@pytest.mark.parametrize("query", ["", "?status=failed", "?q=doc", "?priority=high", "?age=older"])
def test_no_query_of_a_list_counts_without_a_bound(operator: Client, query: str) -> None:
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
def test_errors_of_successful_attempts_are_not_queried(operator: Client, query: str, found: int) -> None:
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
def test_filters_find_the_rows_they_name(operator: Client, query: str, found: set[str]) -> None:
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
def test_search_uses_the_unique_index(operator: Client) -> None:
    enqueue("probe", "arxiv:1")
    queries = queries_of(operator, page("execution") + "?q=arxiv")
    listing = next(q for q in queries if "arxiv" in q and "COUNT(" not in q)
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN QUERY PLAN " + listing.replace("%", "%%"))
        plan = " ".join(str(step[-1]) for step in cursor.fetchall())
    assert "(flow=? AND key>? AND key<?)" in plan


def test_hostile_text_is_shown_and_never_executed(operator: Client) -> None:
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
    Execution.objects.update(payload={"given": "a file"}, context={"found": "its title"})
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


def test_attempts_are_found_by_their_executions_key(operator: Client) -> None:
    a_failed("doc:1")
    a_failed("doc:2")
    rows = operator.get(page("attempt"), {"q": "doc:1"}).context["cl"].result_list
    assert [row.execution.key for row in rows] == ["doc:1"]


def tabs_of(client: Client, query: str) -> dict[str, tuple[str, str]]:
    """The number and the link of each tab; the chosen one begins with `*`."""
    text = text_of(client.get(f"{page('execution')}?{query}"))
    found = re.findall(r'<li><a href="(\?[^"]*)"( aria-current="page")?>(\w+)(?: <span[^>]*>([^<]*))?', text)
    return {
        f"{'*' if chosen else ''}{state}": (count, unescape(link)) for link, chosen, state, count in found
    }


def test_tabs_count_each_state_of_what_the_other_filters_find_and_keep_them(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_failed("doc:1")
    a_failed("other")
    for n in range(3):
        enqueue("probe", f"doc:w{n}")
    tabs = tabs_of(operator, "q=doc%3A&state=failed&p=1&priority=normal")
    assert {state: count for state, (count, _) in tabs.items()} == {
        "all": "", "waiting": "3", "leased": "0", "running": "0", "done": "0", "*failed": "1",
        "skipped": "0", "cancelled": "0",
    }  # fmt: skip
    assert tabs["waiting"][1] == "?q=doc%3A&priority=normal&state=waiting"
    assert tabs_of(operator, "")["*all"] == ("", "?")
    assert next(iter(tabs_of(operator, "status=failed"))) == "all"
    assert {*tabs_of(operator, "priority=nonsense").values()} >= {("", "?priority=nonsense&state=done")}
    monkeypatch.setattr(execution_filters, "MAX_COUNT", 2)
    assert tabs_of(operator, "")["waiting"][0] == "2+"
    monkeypatch.setattr(execution_filters, "COUNT_SECONDS", 1e-6)
    assert len(tabs_of(operator, "")) == 8
