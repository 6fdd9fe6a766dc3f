"""A real Chromium; whoever imports this is skipped where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("playwright", reason="needs the playwright package")

from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if not CHROMIUM:
    pytest.skip("needs Chromium: install it, or name it in CHROMIUM", allow_module_level=True)

ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PASSWORD = "a password for tests"


@contextmanager
def started_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        expect.set_options(timeout=15_000)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def opened_page(browser: Browser, *, scripts: bool = True, width: int = 1280, **more: Any) -> Iterator[Page]:
    """A page of nobody yet: no cookies, nothing kept."""
    with browser.new_context(
        viewport={"width": width, "height": 900}, java_script_enabled=scripts, **more
    ) as context:
        page = context.new_page()
        page.set_default_timeout(90_000)
        yield page


def log_in(page: Page, url: str, name: str) -> None:
    """Log in to the admin of this server, with the password of tests."""
    page.goto(f"{url}/admin/")
    page.fill("#id_username", name)
    page.fill("#id_password", PASSWORD)
    page.get_by_role("button", name="Log in").click()
