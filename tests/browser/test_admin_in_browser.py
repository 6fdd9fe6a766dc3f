"""An operator's round through the admin, in a real browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Page, expect

from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Execution, State
from queuemgr.scheduling import limit_rows
from tests.browser.chromium import PASSWORD, log_in
from tests.browser.conftest import OpenPage

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def work() -> None:
    """One failed execution, one that waits; all rows are made before the browser starts."""
    limit_rows.sync()
    User.objects.create_superuser("sam", password=PASSWORD)
    for key in ("doc:failed", "doc:waiting"):
        enqueue("probe", key)
    Execution.objects.filter(key="doc:failed").update(
        state=State.FAILED, finished_at=timezone.now(), route=None,
        error_kind="not_pdf", error_message="it is a web page",
    )  # fmt: skip


@pytest.fixture(params=[True, False], ids=["with JavaScript", "without JavaScript"])
def page(request: Any, work: None, live_server: Any, open_page: OpenPage) -> Page:
    """The admin's front page, logged in."""
    page = open_page(scripts=request.param)
    log_in(page, live_server.url, "sam")
    return page


def act(page: Page, row: str, action: str) -> None:
    page.locator("#result_list tr", has_text=row).locator("input[type=checkbox]").check()
    page.select_option("select[name=action]", label=action)
    page.click("button[name=index]")


def test_an_operator_retries_a_failure_and_pauses_a_queue_with_a_reason(page: Page) -> None:
    rows = page.locator("#result_list tbody tr")

    page.get_by_role("link", name="Executions").first.click()
    expect(rows).to_have_count(2)
    page.locator(".ex-filters > summary").click()
    page.get_by_label("Status").select_option("failed")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("failed: it is a web page")

    act(page, "doc:failed", "Retry")
    expect(page.locator(".messagelist")).to_have_text("1 execution was retried.")
    expect(rows).to_have_count(0)

    page.get_by_role("link", name="Queue", exact=True).click()
    page.get_by_role("link", name="Queues").first.click()
    act(page, "prep.normal", "Pause…")
    page.fill("#id_reason", "the disk is full")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".messagelist")).to_have_text("Paused: prep.normal.")
    expect(rows.filter(has_text="prep.normal")).to_contain_text("paused by sam: the disk is full")

    page.get_by_role("link", name="Queue", exact=True).click()
    page.get_by_role("link", name="Executions").first.click()
    page.get_by_role("link", name="doc:failed").click()
    why = page.locator(".ex-why")
    expect(why).to_contain_text(re.compile(r"prep\.normal paused by sam: the disk is full"))


def test_an_operator_sets_a_rate_that_is_refused_if_misspelt_and_saved_if_valid(page: Page) -> None:
    page.get_by_role("link", name="Limits").first.click()
    page.get_by_role("link", name="host:*").click()
    expect(page.locator(".field-waits_now")).to_contain_text("nothing")

    page.fill("#id_rate", "3 a second")
    page.fill("#id_reason", "the publisher asked us to")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".field-rate .errorlist")).to_contain_text(
        "rate '3 a second' is not understood; write it like \"1/3s\""
    )

    page.fill("#id_rate", "1/3s burst 2")
    page.get_by_role("button", name="Save", exact=True).click()
    row = page.locator("#result_list tbody tr", has_text="host:*")
    expect(row.locator(".field-rate_now")).to_have_text("1/3s burst 2 each")

    page.get_by_role("link", name="Queue", exact=True).click()
    page.get_by_role("link", name="Audit log").first.click()
    change = page.locator("#result_list tbody tr")
    expect(change).to_have_count(1)
    expect(change).to_contain_text("the publisher asked us to")
    expect(change).to_contain_text("1/3s burst 2")
