"""Every page of the admin by axe, in light and dark, wide and narrow; and what is loaded from elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

from tests.browser.admin_rows import addresses, make_rows
from tests.browser.chromium import log_in
from tests.browser.conftest import OpenPage

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDTHS = (1280, 400)
GRAVE = {"serious", "critical"}
ONLY_COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
FEW = ("/admin/", "/admin/queuemgr/execution/", "/admin/queuemgr/limit/add/")
"""What every run of the tests looks at; `make proof` looks at every page there is."""


@pytest.fixture
def pages() -> list[str]:
    """The rows are made, and the addresses read, before the browser starts."""
    make_rows()
    return list(addresses())


@pytest.fixture
def page(pages: list[str], live_server: Any, open_page: OpenPage) -> Page:
    return open_page()


def problems_of(page: Page) -> list[str]:
    """What axe finds on the page, in both schemes and widths, and whether the page scrolls sideways."""
    found = []
    page.evaluate(AXE_SCRIPT)
    for dark in (False, True):
        page.evaluate("dark => document.documentElement.classList.toggle('dark', dark)", dark)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            where = f"{page.url} {'dark' if dark else 'light'} {width}"
            found += [f"{where}: {violation}" for violation in _violations(page, only_colours=dark)]
            wide = page.evaluate("document.documentElement.scrollWidth")
            found += [f"{where}: {wide} pixels wide"] if wide > width else []
    return found


def _violations(page: Page, *, only_colours: bool) -> list[str]:
    more = ONLY_COLOURS if only_colours else {}
    options = {"resultTypes": ["violations"], **more}
    found = page.evaluate("async options => (await axe.run(options)).violations", options)
    return [
        f"{rule['id']}: {node['html'][:200]}"
        for rule in found
        if rule["impact"] in GRAVE
        for node in rule["nodes"]
    ]


def look_at(page: Page, server: str, addresses: list[str]) -> list[str]:
    """Log in, open each page, and return every problem, and every request to another host."""
    other_hosts: list[str] = []
    page.on(
        "request",
        lambda request: (
            other_hosts.append(request.url) if not request.url.startswith((server, "data:")) else None
        ),
    )
    page.goto(f"{server}/admin/")
    found = problems_of(page)
    log_in(page, server, "sam")
    for address in addresses:
        page.goto(server + address)
        found += problems_of(page)
    return [*found, *other_hosts]


def test_the_login_page_and_the_most_used_pages_are_accessible(page: Page, live_server: Any) -> None:
    assert look_at(page, live_server.url, [*FEW]) == []


@pytest.mark.slow_proof
def test_every_page_is_accessible(page: Page, pages: list[str], live_server: Any) -> None:
    assert look_at(page, live_server.url, pages) == []
