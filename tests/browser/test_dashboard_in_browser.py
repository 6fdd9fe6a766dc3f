"""The dashboard in a browser: refreshes keep focus and selections, and it works without JavaScript."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Page, expect

from queuemgr.base import process_state
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Execution, LimitState, State
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from tests.browser.chromium import PASSWORD, log_in
from tests.browser.conftest import OpenPage

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SOON = 60_000
"""Milliseconds: generous, a refresh comes every five seconds."""


@pytest.fixture
def work(live_server: Any) -> str:
    """Two executions that wait and one that failed; gives the server's address."""
    process_state.reset_all()
    limit_rows.sync()
    User.objects.create_superuser("sam", password=PASSWORD)
    for key in ("doc:failed", "doc:1", "doc:2"):
        enqueue("probe", key)
    Execution.objects.filter(key="doc:failed").update(
        state=State.FAILED, finished_at=timezone.now(), route=None,
        error_kind="not_pdf", error_message="<b>it is a web page</b>", error_fingerprint="f" * 16,
    )  # fmt: skip
    return str(live_server.url)


@pytest.fixture
def page(work: str, open_page: OpenPage) -> Page:
    page = open_page()
    log_in(page, work, "sam")
    return page


def test_the_dashboard_shows_a_change_without_a_reload(page: Page) -> None:
    alarms = page.locator("#dashboard-alerts")
    expect(alarms).to_contain_text("No worker is live, and 2 executions wait")
    page.evaluate("window.loadedOnce = true")
    page.locator("#dashboard-ended-table summary").click()
    page.locator("#dashboard-headline a").first.focus()

    controls.pause("prep", Actor("kim", "command", "the disk is full"))
    expect(alarms).to_contain_text("phase:prep paused by kim: the disk is full", timeout=SOON)
    expect(page.locator("#dashboard-limits")).to_contain_text("paused by kim: the disk is full")
    expect(page.locator("#dashboard-news")).to_contain_text("phase:prep paused by kim")
    assert page.evaluate("window.loadedOnce") is True
    assert page.locator("#dashboard-ended-table").evaluate("details => details.open")
    assert page.evaluate("document.activeElement.closest('#dashboard-headline') !== null")
    assert page.locator("#dashboard-ended").evaluate("canvas => Boolean(window.Chart.getChart(canvas))")

    controls.resume("prep", Actor("kim", "command"))
    expect(alarms).not_to_contain_text("paused", timeout=SOON)


def test_the_dashboard_is_not_refreshed_while_refreshing_is_stopped(page: Page) -> None:
    page.get_by_role("button", name="Stop refreshing").click()
    moment = page.locator("#dashboard-timestamp")
    held = moment.inner_text()
    page.wait_for_timeout(6_000)
    assert moment.inner_text() == held
    page.get_by_role("button", name="Resume refreshing").click()
    expect(moment).not_to_have_text(held, timeout=SOON)


def test_a_signed_out_user_is_notified_and_sees_no_more(page: Page) -> None:
    page.context.clear_cookies()
    expect(page.locator("#dashboard-state")).to_contain_text("signed out", timeout=SOON)
    expect(page.locator("#dashboard-headline")).to_be_visible()


def test_the_dashboard_can_be_read_and_refreshed_without_javascript(work: str, open_page: OpenPage) -> None:
    page = open_page(scripts=False)
    log_in(page, work, "sam")
    queues = page.locator("#dashboard-queues tbody tr", has_text="prep")
    expect(queues.locator("td").nth(1)).to_contain_text("2 waiting")
    expect(page.locator("#dashboard-failures")).to_contain_text("<b>it is a web page</b>")
    controls.pause("prep", Actor("kim", "command", "the disk is full"))
    page.get_by_role("link", name="Refresh").click()
    expect(page.locator("#dashboard-alerts")).to_contain_text("the disk is full")
    page.get_by_role("link", name="last 24 h").click()
    expect(page.locator("#dashboard-trends [aria-current]")).to_have_text("last 24 h")


def test_the_dashboard_fits_its_window_and_is_accessible(page: Page) -> None:
    """In both widths, light and dark, with names as long as they may be."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    name = f"host:{'long-name.' * 20}example:443"
    enqueue("probe", "x" * 200, {"limit_key": name})
    LimitState.objects.create(
        name=name, open_until=timezone.now() + timedelta(hours=1), open_reason=name[:200]
    )
    for width, scheme in ((400, "dark"), (1280, "dark"), (1280, "light"), (400, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.reload()
        expect(page.locator("#dashboard-limits")).to_contain_text("long-name")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = axe.run(page, context="#dashboard").response["violations"]
        violations = [(v["id"], [node["html"] for node in v["nodes"]][:3]) for v in found]
        assert violations == [], (width, scheme)
