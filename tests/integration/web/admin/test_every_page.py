"""Every page of the admin, found from its routes: reading changes nothing, and no text is run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from tests.integration.web.admin import every_model
from tests.integration.web.admin.every_model import AdminPage, admin_pages, fingerprint

pytestmark = pytest.mark.django_db

ATTACK = "alert(71077345)"
HOSTILE = (
    f"<script>{ATTACK}</script>\"><img src=x onerror={ATTACK}>' onfocus={ATTACK} x='"
    f'<a href="javascript:{ATTACK}">here</a>javascript:{ATTACK}\u202e\u2066\x01\x1b[31m{{{{ 7 }}}}'
)
LONG = "M" * 10_000
BESIDES = ("/papers/", "/papers/table", "/healthz", "/admin/queuemgr/change/export/jsonl")
"""Addresses outside the admin, and others of its patterns."""


def read(client: Client, page: AdminPage) -> Any:
    response = client.get(page.url)
    body = b"".join(response) if response.streaming else response.content
    assert response.status_code < 500, page
    return response, body.decode()


def ids_used_twice(text: str) -> set[str]:
    return {name for name, times in Counter(re.findall(r'<[^>]*\sid="([^"]*)"', text)).items() if times > 1}


def test_reading_every_page_changes_nothing_and_no_page_has_an_id_twice(superuser: Client) -> None:
    """State never changes on GET: not by any page, nor by an action named in its query."""
    made = every_model.make()
    pages = list(admin_pages(made))
    before = fingerprint()
    for page in pages:
        if page.name != "logout":
            _, text = read(superuser, page)
            assert ids_used_twice(text) == set(), page
            for action in ("retry", "cancel", "pause", "delete_selected"):
                if page.name.endswith("_changelist"):
                    query = {"action": action, "_selected_action": "1", "post": "yes", "reason": "x"}
                    superuser.get(page.url, query)
    for url in BESIDES:
        assert superuser.get(url).status_code < 500
    after = fingerprint()
    assert {name for name in after if after[name] != before[name]} == set()
    assert len(pages) > 60


class Found(HTMLParser):
    """What of a page is markup: its scripts, its images, and the attributes that hold code."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.bad: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_script = tag == "script"
        for name, value in attrs:
            text = (value or "").strip().lower()
            runs = name.startswith(("on", "x-", "@", ":", "hx-")) and ATTACK in text
            if runs or (name in ("href", "src", "action") and text.startswith("javascript:")):
                self.bad.append(f"<{tag} {name}={value}>")
        if tag == "img" and ("src", "x") in attrs:
            self.bad.append("<img src=x>")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script and data.strip().startswith(ATTACK):
            self.bad.append(f"<script>{data}")


def markup_in(text: str) -> list[str]:
    found = Found()
    found.feed(text)
    return found.bad


def test_the_check_for_markup_can_fail() -> None:
    assert len(markup_in(HOSTILE)) == 4


@pytest.mark.parametrize("text", [HOSTILE, f"{LONG}{HOSTILE}"], ids=["short", "ten thousand long"])
def test_no_text_of_any_row_is_markup_on_any_page(superuser: Client, text: str) -> None:
    """Titles, keys, errors, limits, reasons, names of workers and people, answers of models."""
    made = every_model.make(text)
    for page in admin_pages(made):
        if page.name != "logout":
            response, shown = read(superuser, page)
            assert markup_in(shown) == [] or "html" not in response["Content-Type"], page
            assert response["X-Content-Type-Options"] == "nosniff", page
            assert "script-src 'self';" in response["Content-Security-Policy"], page
    for url in BESIDES:
        response, shown = read(superuser, AdminPage("", url))
        assert markup_in(shown) == [] or "html" not in response["Content-Type"], url


def test_hostile_text_is_still_readable(superuser: Client, staff: Callable[..., Client]) -> None:
    """Escaped, not left out."""
    made = every_model.make(HOSTILE)
    for page in admin_pages(made):
        if page.name in ("queuemgr_auditentry_changelist", "queuemgr_worker_changelist"):
            assert f"&lt;script&gt;{ATTACK}" in read(superuser, page)[1]
