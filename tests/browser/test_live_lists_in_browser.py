"""Lists in a browser refresh without losing place, focus, ticked rows or what is being typed."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from queuemgr.base import process_state
from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle.enqueue import enqueue, enqueue_many
from queuemgr.scheduling import limit_rows
from tests.browser.chromium import PASSWORD, log_in
from tests.browser.conftest import OpenPage

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SOON = 60_000
"""Milliseconds: generous, a list is asked for again every five seconds."""


def test_a_list_refreshes_without_losing_place_focus_or_ticked_rows(
    live_server: Any, open_page: OpenPage
) -> None:
    process_state.reset_all()
    limit_rows.sync()
    User.objects.create_superuser("sam", password=PASSWORD)
    enqueue_many("probe", [NewExecution(f"doc:{n:02}") for n in range(40)])
    page = open_page()
    log_in(page, str(live_server.url), "sam")
    page.goto(f"{live_server.url}/admin/queuemgr/execution/")
    rows = page.locator("#result_list")
    page.evaluate("window.loadedOnce = true")

    link = page.get_by_role("link", name="doc:20", exact=True)
    link.focus()
    link.evaluate("link => window.scrollBy(0, link.closest('tr').getBoundingClientRect().top - 20)")
    top = link.evaluate("link => link.getBoundingClientRect().top")
    enqueue("probe", "doc:new")
    expect(rows).to_contain_text("doc:new", timeout=SOON)
    expect(page.locator("#list-tabs")).to_contain_text("41")
    assert abs(link.evaluate("link => link.getBoundingClientRect().top") - top) <= 2
    assert link.evaluate("link => document.activeElement === link")

    page.locator("input.action-select").first.check()  # a row that came by itself
    state = page.locator("#list-live-state")
    expect(state).to_contain_text("while rows are ticked", timeout=SOON)
    expect(page.locator(".action-counter")).to_contain_text("1 of 41")
    enqueue("probe", "doc:later")
    page.locator("input.action-select").first.uncheck()
    expect(rows).to_contain_text("doc:later", timeout=SOON)

    page.get_by_role("button", name="Stop refreshing").click()
    expect(state).to_have_text("not refreshing")
    assert page.evaluate("window.loadedOnce") is True
