"""In a real browser: no page does what the policy forbids, and what it forbids does not happen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.admin_rows import addresses, make_rows
from tests.browser.chromium import log_in
from tests.browser.conftest import OpenPage

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

RECORD = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (e) =>
  violations.push(`${e.effectiveDirective} ${e.blockedURI} ${e.sample} ${e.sourceFile}:${e.lineNumber}`));
"""
BESIDES = ("/papers/", "/papers/table", "/admin/login/", "/api/v1/docs", "/healthz", "/no/such/page")
FEW = ("/admin/", "/admin/queuemgr/execution/", "/admin/auth/user/add/")
"""What every run of the tests looks at; `make proof` looks at every page there is."""


@pytest.fixture
def urls() -> list[str]:
    """The rows are made, and the addresses read, before the browser starts."""
    make_rows()
    return list(addresses())


@pytest.fixture
def page(urls: list[str], live_server: Any, open_page: OpenPage) -> Iterator[Page]:
    """Left when nothing is loaded any more: a request under way would hold the database, which is emptied."""
    page = open_page()
    page.add_init_script(RECORD)
    log_in(page, live_server.url, "sam")
    expect(page).to_have_title(re.compile("Dashboard"))
    page.wait_for_load_state("networkidle")
    page.goto(f"{live_server.url}/admin/queuemgr/limit/add/")
    yield page
    page.goto(f"{live_server.url}/admin/queuemgr/limit/add/")  # what was put into a page may load for ever
    page.wait_for_load_state("networkidle")


def problems(page: Page, server: str, urls: Iterable[str]) -> list[str]:
    """What the browser refused or Alpine could not evaluate, on these pages and by their buttons."""
    found: list[str] = []
    page.on("console", lambda m: found.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    for url in urls:
        response = page.goto(f"{server}{url}", wait_until="networkidle" if url in BESIDES else "load")
        assert response is not None
        assert response.ok or url == "/no/such/page", url
        press_everything(page)
        found += page.evaluate("window.violations")
    return [text for text in found if "404 (Not Found)" not in text]  # of a favicon, or of the page itself


def press_everything(page: Page) -> None:
    """Press whatever changes only the page itself, so that its expressions are evaluated."""
    for element in page.query_selector_all("[x-on\\:click]"):
        if element.is_visible():
            element.click()
    page.keyboard.press("Escape")


def test_the_most_used_pages_do_nothing_that_the_policy_forbids(page: Page, live_server: Any) -> None:
    assert problems(page, live_server.url, [*FEW, *BESIDES]) == []


@pytest.mark.slow_proof
def test_no_page_does_what_the_policy_forbids(page: Page, urls: list[str], live_server: Any) -> None:
    assert len(urls) > 20
    assert problems(page, live_server.url, urls) == []


ALPINE = "Alpine"
INJECTED = {
    "<img src=x onerror='window.ran = true'>": "script-src-attr inline",
    "<a href='javascript:window.ran = true' class=pressed>here</a>": "script-src-elem inline",
    "<style>body { color: red }</style>": "style-src-elem inline",
    "<object data='/admin/'></object>": "object-src",
    "<base href='https://elsewhere.example.org/'>": "base-uri",
    "<form action='https://elsewhere.example.org/'><button class=pressed>send</button></form>": "form-action",
    "<img src='https://elsewhere.example.org/seen'>": "img-src",
    "<iframe class=loads srcdoc='<script>parent.ran = true</script>'></iframe>": "script-src-elem inline",
    "<p x-data x-init=\"constructor.constructor('window.ran = true')()\"></p>": ALPINE,
    '<p x-data x-init="$el.ownerDocument.defaultView.ran = true"></p>': ALPINE,
    "<p x-data x-init=\"$el.innerHTML = '<img src=x onerror=window.ran=true>'\"></p>": ALPINE,
}
"""Markup, and who refuses it: the browser, by what it says of it, or Alpine."""

RUNS = [markup for markup, refused in INJECTED.items() if "ran" in markup and refused != ALPINE]
EVALUATED = "<p class=evaluated x-data=\"{ word: 'evaluated' }\" x-text=word></p>"
"""What Alpine shows a word in, after all that is before it."""


def put(page: Page, markup: str) -> None:
    """Put this into the page, press what is to be pressed, and wait until frames are loaded and Alpine has
    seen it."""
    page.evaluate("() => document.querySelectorAll('.evaluated').forEach(element => element.remove())")
    page.evaluate(PUT, markup + EVALUATED)
    for pressed in page.query_selector_all(".pressed"):
        pressed.evaluate("element => { element.className = ''; element.click() }")
    page.wait_for_function(SETTLED)


SETTLED = "() => document.querySelector('.evaluated').textContent === 'evaluated' && loading === 0"
REFUSED = "by => [window, ...Array.from(frames)].some(one => one.violations.some(v => v.startsWith(by)))"
PUT = """
html => {
  window.loading = 0;
  const before = new Set(document.querySelectorAll(".loads"));
  document.body.insertAdjacentHTML("beforeend", html);
  for (const frame of document.querySelectorAll(".loads"))
    if (!before.has(frame)) { window.loading++; frame.addEventListener("load", () => window.loading--); }
}
"""


def test_markup_that_got_into_a_page_does_nothing(page: Page, open_page: OpenPage) -> None:
    """Text is escaped; this is the defence behind it. It is noticed what is refused, and without the policy
    the same markup runs."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    for markup, refused in INJECTED.items():
        before = len(errors)
        put(page, markup)
        if refused == ALPINE:
            page.wait_for_timeout(200)
            assert len(errors) > before, markup
        else:
            page.wait_for_function(REFUSED, arg=refused)
        assert page.evaluate("window.ran") is None, markup
        page.evaluate("window.violations = []")
    free = open_page(bypass_csp=True, storage_state=page.context.storage_state())
    free.goto(page.url)
    for markup in RUNS:
        put(free, markup)
        free.wait_for_function("() => window.ran === true")
        free.evaluate("delete window.ran")


def test_what_the_theme_does_by_alpine_still_works(page: Page, live_server: Any) -> None:
    html = page.locator("html")
    page.get_by_role("button", name="Dark").first.click()
    expect(html).to_have_class("dark")
    page.reload()
    expect(html).to_have_class("dark")
    page.get_by_role("button", name="Light").first.click()
    expect(html).to_have_class("light")
    page.goto(f"{live_server.url}/admin/queuemgr/limit/add/?tab=1#somewhere")
    expect(page.locator("#limit_form")).to_have_attribute("action", "/admin/queuemgr/limit/add/?tab=1")
