"""Undoing a change in a real browser, under the policy that lets no script but ours run."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from tests.browser.chromium import PASSWORD, log_in
from tests.browser.conftest import OpenPage

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

HOSTILE = "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"


@pytest.fixture
def work() -> None:
    """A limit edited by someone with a hostile name; all rows are made before the browser starts."""
    limit_rows.sync()
    User.objects.create_superuser("sam", password=PASSWORD)
    controls.edit_limit("host:*", Actor(HOSTILE, "command", HOSTILE), max_running=9)


@pytest.fixture(params=[True, False], ids=["with JavaScript", "without JavaScript"])
def page(request: Any, work: None, live_server: Any, open_page: OpenPage) -> Page:
    page = open_page(scripts=request.param)
    log_in(page, live_server.url, "sam")
    return page


def test_a_limit_change_is_undone_from_its_page_and_nothing_is_refused_by_the_policy(
    page: Page, live_server: Any
) -> None:
    logged: list[str] = []
    page.on("console", lambda message: logged.append(message.text))
    for address in ("", "queuemgr/limit/", "queuemgr/execution/", "queuemgr/auditentry/"):
        page.goto(f"{live_server.url}/admin/{address}")
    row = page.locator("#result_list tbody tr").first
    expect(row).to_contain_text(HOSTILE)
    row.locator("th a, td a").first.click()

    page.get_by_label("Reason").fill("it was meant for another host")
    page.get_by_role("button", name="Undo this change").click()
    expect(page.locator("body")).to_contain_text("Undone: host:* is max_running 4 again.")

    page.goto(f"{live_server.url}/admin/queuemgr/auditentry/")
    newest = page.locator("#result_list tbody tr").first
    expect(newest).to_contain_text("it was meant for another host")
    assert page.title() != "run"
    assert [text for text in logged if "Content Security Policy" in text] == []
