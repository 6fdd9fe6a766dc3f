"""A round through the admin with JavaScript off, on a desk and on a phone, and by keyboard."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.admin_rows import make_rows
from tests.browser.chromium import log_in
from tests.browser.conftest import OpenPage

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

DARKEST = 60
"""The most of red, green and blue, of 255, that counts as a dark ground."""
MENU_BEHIND_A_BUTTON = 768
"""Pixels: narrower pages keep the menu behind a button (plain.css)."""


@pytest.fixture
def rows() -> None:
    make_rows()


def follow(page: Page, entry: str) -> None:
    """An entry of the menu, which a narrow page keeps behind a button."""
    _open_menu(page)
    page.locator("#nav-sidebar").get_by_role("link", name=entry, exact=True).click()


def _open_menu(page: Page) -> None:
    """By the page's width: a button is not visible yet while its page loads."""
    assert page.viewport_size
    if page.viewport_size["width"] < MENU_BEHIND_A_BUTTON:
        page.get_by_role("button", name="Menu").click()


@pytest.mark.parametrize("width", [1280, 400])
def test_every_operator_action_works_without_javascript(
    width: int, rows: None, live_server: Any, open_page: OpenPage
) -> None:
    page = open_page(scripts=False, width=width)
    log_in(page, live_server.url, "sam")
    _retries_what_failed(page)
    _filters_by_a_link(page)
    _edits_a_limit(page)
    _open_menu(page)
    page.get_by_role("button", name="Log out").click()
    page.goto(f"{live_server.url}/admin/")
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


def _retries_what_failed(page: Page) -> None:
    follow(page, "Executions")
    found = page.locator("#result_list tbody tr")
    expect(found).to_have_count(3)
    page.locator(".ex-filters > summary").click()
    page.get_by_label("Status").select_option("failed")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(found).to_have_count(1)
    found.locator("input[type=checkbox]").check()
    page.select_option("select[name=action]", label="Retry")
    page.get_by_role("button", name="Run").click()
    expect(page.locator(".messagelist")).to_have_text("1 execution was retried.")


def _filters_by_a_link(page: Page) -> None:
    follow(page, "Queues")
    page.locator("#changelist-filter > summary").click()
    page.locator("#changelist-filter").get_by_role("link", name="prep", exact=True).click()
    expect(page.locator("#result_list tbody tr")).to_have_count(3)
    page.locator(".sg-chosen").get_by_role("link", name="phase: prep").click()
    expect(page.locator(".sg-chosen")).to_have_count(0)


def _edits_a_limit(page: Page) -> None:
    follow(page, "Limits")
    page.locator("#searchbar").fill("phase:prep")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="phase:prep").click()
    page.fill("#id_max_running", "7")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messagelist")).to_contain_text("changed successfully")
    expect(page.locator("#result_list")).to_contain_text("/ 7")


def test_the_keyboard_can_skip_the_menu_and_open_it(
    rows: None, live_server: Any, open_page: OpenPage
) -> None:
    page = open_page(scripts=False, width=400)
    log_in(page, live_server.url, "sam")
    page.goto(f"{live_server.url}/admin/queuemgr/queue/")
    page.keyboard.press("Tab")
    expect(page.locator(".sg-skip")).to_be_focused()
    expect(page.locator(".sg-skip")).to_be_in_viewport()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    menu = page.locator("#nav-sidebar")
    expect(menu).to_be_visible()
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_the_preferred_dark_scheme_is_used(
    scripts: bool, rows: None, live_server: Any, open_page: OpenPage
) -> None:
    page = open_page(scripts=scripts, color_scheme="dark")
    page.goto(f"{live_server.url}/admin/")
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    assert max(_ground(page)) < DARKEST


def _ground(page: Page) -> list[int]:
    """The colour of the page's lower right corner, as it is drawn."""
    from io import BytesIO

    from PIL import Image

    drawn = Image.open(BytesIO(page.screenshot())).convert("RGB")
    return list(drawn.getpixel((drawn.width - 5, drawn.height - 5)))
