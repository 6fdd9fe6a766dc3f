"""One Chromium for the tests of a module; each of them opens pages of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Browser, Page

from tests.browser.chromium import opened_page, started_browser

OpenPage = Callable[..., Page]
"""`open_page(scripts=False, width=400)`; what else a browser context takes is passed on."""


@pytest.fixture(autouse=True, scope="session")
def static_root() -> None:
    """WhiteNoise warns, and warnings are errors, when there is no such directory."""
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as patch, started_browser() as browser:
        # Playwright keeps an event loop in this thread, beside which the tests use the database.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        yield browser


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[OpenPage]:
    with ExitStack() as opened:

        def open_page(**options: Any) -> Page:
            return opened.enter_context(opened_page(chromium, **options))

        yield open_page
