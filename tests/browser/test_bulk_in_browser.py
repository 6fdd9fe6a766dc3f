"""A group of failures retried, and a bulk action stopped half-way, in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from queuemgr.lifecycle import publish
from queuemgr.operations.bulk import chunk
from queuemgr.scheduling import limit_rows
from tests.browser.chromium import PASSWORD, log_in
from tests.browser.conftest import OpenPage
from tests.integration.operations.bulk_fixtures import some_failed, started

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two causes of failure, and an action half done; all rows are made before the browser starts."""
    monkeypatch.setattr(publish, "send", lambda grants: 0)
    monkeypatch.setattr(publish, "periodic_job", lambda task: None)
    limit_rows.sync()
    User.objects.create_superuser("sam", password=PASSWORD)
    some_failed(4, "network", "refused by a", "aaaa")
    some_failed(3, "timeout", "no answer", "bbbb", prefix="t")
    action = started("priority", {"error_kind": "network"}, arguments={"priority": "high"})
    chunk.change_next(action.pk, rows=2)


@pytest.fixture(params=[True, False], ids=["with JavaScript", "without JavaScript"])
def page(request: Any, work: None, live_server: Any, open_page: OpenPage) -> Page:
    page = open_page(scripts=request.param)
    log_in(page, live_server.url, "sam")
    return page


def test_an_operator_retries_one_cause_and_stops_an_action_half_way(page: Page, live_server: Any) -> None:
    page.goto(f"{live_server.url}/admin/queuemgr/bulkaction/failures/")
    group = page.locator("tr", has_text="no answer")
    expect(group).to_contain_text("timeout")
    group.get_by_role("link", name="Retry these…").click()
    expect(page.locator("#preview h2")).to_have_text("3 executions would change")
    expect(page.locator("#preview tbody tr")).to_have_count(3)
    page.fill("#reason", "the service is back")
    page.get_by_role("button", name="Retry 3 executions").click()
    expect(page.locator("#bulk-progress")).to_contain_text("Running: 0% of 3 executions")
    expect(page.locator("body")).to_contain_text("sam, through admin: the service is back")

    page.get_by_role("link", name="All bulk actions").click()
    page.locator("tr", has_text="priority high").get_by_role("link").first.click()
    expect(page.locator("#bulk-progress")).to_contain_text("Running: 50% of 4 executions")
    page.get_by_text("Stop it…").click()
    page.fill("#stop-reason", "the wrong ones")
    page.get_by_role("button", name="Stop now").click()
    expect(page.locator("#bulk-progress")).to_contain_text("Stopped by sam: 50% of 4 executions")

    page.get_by_text("Resume with the rest…").click()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("link", name="All bulk actions").click()
    expect(page.locator("#result_list tbody tr")).to_have_count(3)
    expect(page.locator("#result_list tbody tr").first).to_contain_text("0% of 2")
