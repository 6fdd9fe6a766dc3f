"""An operator's shift, in a real browser over a real fleet: what is done is seen, and holds.

With KEEP_PICTURES the pages visited are kept there, as README.md and docs show them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from queuemgr.local.private_servers import free_port, wait_for_port
from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet
from tests.browser.chromium import PASSWORD, log_in, opened_page, started_browser
from tests.fork_server import REPOSITORY

pytestmark = pytest.mark.browser

SLOTS, FAILED = 4, 30
SOON = 60_000
"""Milliseconds until the dashboard must show what happened: it looks every five seconds."""


@pytest.fixture
def fleet(make_fleet: MakeFleet) -> Fleet:
    """Work under way at a cap of two, thirty failures, and everything that runs in production."""
    fleet = make_fleet(
        poll_interval=1, lease_seconds=60, heartbeat_seconds=20, alert_after=0,
        alert_destinations="desk=chat+https://chat.invalid/hook",
    )  # fmt: skip
    fleet.start_housekeeping()
    fleet.start_beat()
    fleet.start_worker(SLOTS)
    fleet.enqueue(FAILED, key_prefix="broken", fail="not_pdf")
    fleet.wait_until("thirty failed", lambda: fleet.states()["failed"] == FAILED)
    fleet.queue("limit", "phase:prep", "--max-running", "2", "--reason", "a quiet start")
    fleet.enqueue(1_000, key_prefix="paper", seconds=0.5)
    return fleet


@pytest.fixture
def page(fleet: Fleet) -> Iterator[Page]:
    """The dashboard, before the one who is on duty."""
    subprocess.run(
        [sys.executable, "manage.py", "createsuperuser", "--noinput", "--username", "ada",
         "--email", "ada@example.org"],
        env={**fleet.environment, "DJANGO_SUPERUSER_PASSWORD": PASSWORD}, cwd=REPOSITORY, check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    port = free_port()
    fleet.start(
        "web", sys.executable, "-W", "ignore", "manage.py", "serve", "--port", str(port),
    )  # fmt: skip
    wait_for_port(port)
    with started_browser() as browser, opened_page(browser) as page:
        log_in(page, f"http://127.0.0.1:{port}", "ada")
        yield page


@pytest.mark.slow_proof
def test_an_operator_operates_a_fleet_from_the_dashboard(fleet: Fleet, page: Page) -> None:
    """Pause, drain, raise a cap, retry a failure group, stop it half-way, undo; then look at what is left."""
    expect(running(page)).to_have_text("2", timeout=SOON)
    pause_the_phase(page)
    assert fleet.states()["waiting"] > 300, "waiting work keeps waiting"
    open_list(page, "Executions")
    expect(page.locator("#result_list")).to_contain_text("paused by ada: the publisher is down")
    keep(page, "executions", whole=False)
    resume_with_every_slot(page)
    retry_the_failures_and_stop(page)
    undo_the_cap(page)
    assert fleet.one("SELECT max_running FROM queuemgr_limit WHERE name = 'phase:prep'") == 2
    open_dashboard(page)
    expect(running(page)).to_have_text("2", timeout=SOON)
    keep(page, "dashboard")
    find_a_failure(page)
    see_steps(page)
    see_an_alert(fleet, page)


def find_a_failure(page: Page) -> None:
    """By a part of its key, and what its page says of it."""
    page.fill("#sg-find", "roken-29")
    page.keyboard.press("Enter")
    found = page.get_by_role("link", name="broken-29", exact=True)
    expect(found).to_be_visible()
    keep(page, "search", whole=False)
    found.click()
    expect(page.locator(".ex-waterfall")).to_contain_text("failed")
    keep(page, "execution")


def see_steps(page: Page) -> None:
    open_list(page, "Steps")
    expect(page.locator("main, #content").first).to_contain_text("prep/probe")
    keep(page, "steps")


def see_an_alert(fleet: Fleet, page: Page) -> None:
    """That stands, of a pause, and a silence."""
    fleet.queue("pause", "wrap", "--reason", "the printer is being moved")
    for _ in range(3):
        fleet.queue("alerts", "send")
    fleet.queue("alerts", "silence", "workers busy", "--until", "2h", "--reason", "a large import")
    open_list(page, "Alerts")
    expect(page.locator("main, #content").first).to_contain_text("the printer is being moved")
    keep(page, "alerts", whole=False)


def pause_the_phase(page: Page) -> None:
    """And see on the dashboard that nothing runs, and why."""
    open_list(page, "Limits")
    act(page, "phase:prep", "Pause…")
    page.fill("#id_reason", "the publisher is down")
    page.get_by_role("button", name="Pause").click()
    open_dashboard(page)
    expect(running(page)).to_have_text("0", timeout=SOON)
    expect(page.locator("#dashboard-limits")).to_contain_text("the publisher is down")


def resume_with_every_slot(page: Page) -> None:
    open_list(page, "Limits")
    keep(page, "limits", whole=False)
    act(page, "phase:prep", "Resume")
    page.get_by_role("link", name="phase:prep", exact=True).click()
    page.fill("#id_max_running", str(SLOTS))
    page.fill("#id_reason", "they are back")
    page.get_by_role("button", name="Save", exact=True).click()
    open_dashboard(page)
    expect(running(page)).to_have_text(str(SLOTS), timeout=SOON)


def retry_the_failures_and_stop(page: Page) -> None:
    """Retry a failure group slowly, and stop when a part of it is retried."""
    page.locator("#dashboard-failures").get_by_role("link", name=re.compile("^Retry these")).click()
    expect(page.locator("#preview h2")).to_have_text(f"{FAILED} executions would change")
    keep(page, "bulk-preview")
    page.fill("#per-minute", "30")
    page.fill("#reason", "the publisher mended its site")
    page.get_by_role("button", name=f"Retry {FAILED} executions").click()
    changed = page.locator("#bulk-progress td").first
    expect(changed).not_to_have_text("0", timeout=SOON)
    page.get_by_text("Stop it…").click()
    page.fill("#stop-reason", "it is down again")
    page.get_by_role("button", name="Stop now").click()
    expect(page.locator("#bulk-progress")).to_contain_text("Stopped by ada")
    keep(page, "bulk-action")
    assert 0 < int(changed.inner_text()) < FAILED


def undo_the_cap(page: Page) -> None:
    open_list(page, "Audit log")
    keep(page, "audit-log")
    row = page.locator("#result_list tbody tr", has_text="they are back")
    row.get_by_role("link").first.click()
    page.fill("#id_undo_reason", "two were enough")
    page.get_by_role("button", name="Undo this change").click()


def running(page: Page) -> Locator:
    return page.locator("#dashboard-headline dd .sg-figure").first


def open_dashboard(page: Page) -> None:
    page.goto(re.sub(r"/admin/.*", "/admin/", page.url))


def open_list(page: Page, name: str) -> None:
    page.locator("nav, aside").get_by_role("link", name=name, exact=True).first.click()


def act(page: Page, row: str, action: str) -> None:
    page.locator("#result_list tr", has_text=row).locator("input[type=checkbox]").first.check()
    page.select_option("select[name=action]", label=action)
    page.click("button[name=index]")


def keep(page: Page, name: str, *, whole: bool = True) -> None:
    if folder := os.environ.get("KEEP_PICTURES"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=whole)
