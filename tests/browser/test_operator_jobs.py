"""Ten jobs of an operator, from the dashboard or the search box, and in how many clicks.

One after the other on one fleet in one browser: that is what costs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from pipeline.models import Document
from queuemgr.base import process_state
from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle.enqueue import enqueue, enqueue_many
from queuemgr.models import AuditEntry, BulkAction, Execution, Limit, LimitState, State, Worker, WorkerDrain
from queuemgr.scheduling import limit_rows
from tests.browser.chromium import PASSWORD, log_in
from tests.browser.conftest import OpenPage

pytestmark = [pytest.mark.browser, pytest.mark.slow_proof, pytest.mark.django_db(transaction=True)]

HOST, REASON = "host:a.example:443", "the disk is full"
TITLE = "On the bounded search of long titles"
MANY = 1_000


class Operator:
    """Counts the clicks; typing and choosing from a list are none."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks = page, 0

    def click(self, what: Locator) -> None:
        what.first.click()
        self.clicks += 1

    def link(self, name: str, within: str = "body") -> None:
        self.click(self.page.locator(within).get_by_role("link", name=name, exact=True))

    def act(self, verb: str, name: str, within: str = "body") -> None:
        link = self.page.locator(within).get_by_role("link", name=re.compile(rf"^{verb}\s+{name}\s*…$"))
        self.click(link)

    def button(self, name: str) -> None:
        self.click(self.page.get_by_role("button", name=name, exact=True))

    def search(self, text: str) -> None:
        self.page.get_by_label("Search everything").fill(text)
        self.button("Find")

    def says(self, reason: str = REASON) -> None:
        self.page.get_by_label("Reason").first.fill(reason)


@pytest.fixture
def fleet(live_server: Any) -> str:
    """A thousand that wait, timeouts of two hosts, and a worker."""
    process_state.reset_all()
    limit_rows.sync()
    User.objects.create_superuser("sam", password=PASSWORD)
    now = timezone.now()
    Worker.objects.create(
        name="w1@test", host="test", pid=1, queues=["wrap.low"], slots=8, started_at=now, seen_at=now
    )
    enqueue_many("probe", [NewExecution(f"w{n}") for n in range(MANY)])
    for host in (HOST, "host:b.example:443"):
        enqueue_many("probe", [NewExecution(f"{host}/{n}", {"limit_key": host}) for n in range(3)])
    LimitState.objects.create(name=HOST, open_until=now + timedelta(hours=1), open_reason="5 x http_429")
    Document.objects.create(key="doi:10.1/x", kind="doi", source="x", enqueued=True, title=TITLE)
    failed = Execution.objects.filter(key__startswith="host:")
    failed.update(state=State.FAILED, finished_at=now, route=None, error_kind="timeout", error_message="30 s")
    enqueue("probe", "b/1")
    one = Execution.objects.filter(key="b/1")
    one.update(
        state=State.FAILED, finished_at=now, route=None, error_kind="network", error_message="b is away"
    )
    return str(live_server.url)


def pauses_a_phase(operator: Operator) -> None:
    operator.act("Pause", "phase:prep", "#dashboard-queues")
    operator.says()
    operator.button("Pause")
    expect(operator.page.locator("#dashboard-alerts")).to_contain_text(f"phase:prep paused by sam: {REASON}")
    assert Limit.objects.get(name="phase:prep").pause_reason == REASON


def resumes_it(operator: Operator) -> None:
    operator.act("Resume", "phase:prep", "#dashboard-queues")
    operator.says()
    operator.button("Resume")
    expect(operator.page.locator("body")).to_contain_text("phase:prep")
    assert not Limit.objects.get(name="phase:prep").pause_reason


def finds_a_paper_by_a_part_of_its_title(operator: Operator) -> None:
    operator.search("BOUNDED search")
    operator.link(TITLE)
    expect(operator.page.locator("h1")).to_contain_text("doi:10.1/x")


def learns_why_one_waits(operator: Operator) -> None:
    operator.search("w77")
    operator.link("w77")
    expect(operator.page.locator("body")).to_contain_text(f"phase:prep paused by sam: {REASON}")


def unblocks_a_host(operator: Operator) -> None:
    operator.act("Unblock", HOST, "#dashboard-limits")
    operator.says()
    operator.button("Unblock")
    expect(operator.page.locator("body")).to_contain_text(f"Unblocked: {HOST}")
    assert not LimitState.objects.filter(name=HOST, open_until__isnull=False).exists()


def raises_a_cap(operator: Operator) -> None:
    operator.act("Change the cap", HOST, "#dashboard-limits")
    operator.page.get_by_label("Cap").fill("77")
    operator.says()
    operator.button("Change the cap")
    expect(operator.page.locator("body")).to_contain_text("77")
    assert Limit.objects.get(name=HOST).max_running == 77


def retries_one_by_words_of_its_error(operator: Operator) -> None:
    operator.search("b is away")
    operator.click(operator.page.get_by_role("link", name="b is away"))
    operator.says()
    operator.button("Retry")
    expect(operator.page.locator("body")).to_contain_text("was retried")


def drains_a_worker(operator: Operator) -> None:
    operator.link("w1@test", "#dashboard-workers")
    operator.act("Drain", "w1@test")
    operator.says()
    operator.button("Drain")
    expect(operator.page.locator("body")).to_contain_text("drained by sam since")
    assert WorkerDrain.objects.get(name="w1@test").drain_reason == REASON


def cancels_a_thousand(operator: Operator) -> None:
    operator.link(f"{MANY:,}", "#dashboard-headline")
    operator.link("Act on all that match…")
    operator.page.locator("[name=verb]").select_option("cancel")
    operator.button("Preview")
    operator.says()
    operator.button(f"Cancel {MANY:,} executions")
    expect(operator.page.locator("body")).to_contain_text(f"of {MANY:,} executions")
    action = BulkAction.objects.get(verb="cancel")
    assert (action.verb, action.matched, action.reason) == ("cancel", MANY, REASON)


def retries_the_timeouts_of_a_host(operator: Operator) -> None:
    """With a preview that names how many."""
    operator.link("Retry these…", "#dashboard-failures")
    operator.page.locator("#preview ~ form [name=key_prefix]").fill(HOST)
    operator.button("Preview")
    expect(operator.page.locator("#preview")).to_contain_text("3 executions would change")
    operator.page.locator("#reason").fill(REASON)
    operator.button("Retry 3 executions")
    expect(operator.page.locator("body")).to_contain_text("of 3 executions")
    assert AuditEntry.objects.filter(action="start bulk action").latest("pk").after["key_prefix"] == HOST


JOBS: dict[Callable[[Operator], None], int] = {
    finds_a_paper_by_a_part_of_its_title: 2,
    pauses_a_phase: 2,
    learns_why_one_waits: 2,
    resumes_it: 2,
    raises_a_cap: 2,
    unblocks_a_host: 2,
    drains_a_worker: 3,
    cancels_a_thousand: 5,
    retries_one_by_words_of_its_error: 3,
    retries_the_timeouts_of_a_host: 4,
}
"""At most so many clicks."""


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_an_operator_does_ten_jobs_in_a_few_clicks_each(
    scripts: bool, fleet: str, open_page: OpenPage
) -> None:
    page = open_page(scripts=scripts)
    page.set_default_timeout(30_000)
    log_in(page, fleet, "sam")
    clicks = {}
    for job in JOBS:
        page.goto(f"{fleet}/admin/")
        operator = Operator(page)
        job(operator)
        clicks[job] = operator.clicks
        print(f"{job.__name__}: {operator.clicks} clicks")
    assert {job.__name__: count for job, count in clicks.items() if count > JOBS[job]} == {}
