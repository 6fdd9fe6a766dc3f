"""Every response tells a browser what it may do with it, whoever made the response."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from project.content_policy import FEATURES, SOURCES
from tests.integration.web.admin import every_model
from tests.integration.web.admin.every_model import admin_pages

pytestmark = pytest.mark.django_db

FORBIDDEN_SOURCES = ("'unsafe-eval'", "*", "http:", "https:", "blob:", "'strict-dynamic'")
MUST_SAY = ("object-src", "base-uri", "form-action", "frame-ancestors")
"""Directives to which `default-src` does not apply, and plugins."""

OTHERS = (
    "/no/such/page", "/admin/no/such/page", "/static/unfold/js/app.js", "/static/no/such/file",
    "/api/v1/executions", "/api/v1/no/such", "/documents/1/pdf", "/documents/1/nothing",
)  # fmt: skip


def plain_addresses(resolver: URLResolver, before: str = "/") -> Iterator[str]:
    """Every address without arguments, outside the admin."""
    for pattern in resolver.url_patterns:
        address = before + str(pattern.pattern)
        if isinstance(pattern, URLPattern) and "<" not in address:
            yield address
        elif isinstance(pattern, URLResolver) and not address.startswith("/admin"):
            yield from plain_addresses(pattern, address)


def directives(policy: str) -> dict[str, list[str]]:
    return {name: sources for name, *sources in (part.split() for part in policy.split("; "))}


def problems(response: Any) -> Iterator[str]:
    policy = directives(response.get("Content-Security-Policy", "default-src *"))
    for name, sources in policy.items():
        yield from (f"{name} {source}" for source in sources if source in FORBIDDEN_SOURCES)
        if name.startswith("script-src") or name == "default-src":
            yield from (f"{name} {source}" for source in sources if source == "'unsafe-inline'")
    yield from (f"no {name}" for name in MUST_SAY if not closed(policy, name))
    expected = {
        "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
    }  # fmt: skip
    for header, value in expected.items():
        if response.get(header) != value:
            yield f"{header} is {response.get(header)}"
    if not all(f"{feature}=()" in response.get("Permissions-Policy", "") for feature in FEATURES):
        yield "Permissions-Policy"


def closed(policy: dict[str, list[str]], name: str) -> bool:
    """Whether a directive allows nothing, or forms of our own only."""
    if name == "object-src" and "sandbox" in policy:
        return True  # a sandbox runs no plugins
    sources = policy.get(name) or (policy.get("default-src") if name == "object-src" else None)
    return sources == ["'none'"] or (name == "form-action" and sources == ["'self'"])


def test_every_response_of_every_page_says_what_a_browser_may_do(superuser: Client) -> None:
    found = {}
    pages = [page.url for page in admin_pages(every_model.make())]
    for url in [*pages, *plain_addresses(get_resolver()), *OTHERS]:
        response = superuser.get(url)
        b"".join(response)  # read to its end, so that its file is closed
        found[url] = list(problems(response))
    assert {url: bad for url, bad in found.items() if bad} == {}
    assert len(found) > 70


def test_so_do_refusals_and_redirects(client: Client, staff: Callable[..., Client]) -> None:
    answers = [
        client.get("/admin/"),
        client.get("/admin/login/"),
        client.post("/admin/login/", {"username": "x", "password": "y"}),
        staff().get("/admin/auth/user/"),
        Client(enforce_csrf_checks=True).post("/admin/login/", {}),
        client.get("/admin/", headers={"host": "elsewhere.example.org"}),
        client.post("/api/v1/executions", b"no json", content_type="application/json"),
    ]
    assert [answer.status_code for answer in answers] == [302, 200, 200, 403, 403, 400, 401]
    assert [list(problems(answer)) for answer in answers] == [[]] * len(answers)


def test_the_nonce_of_a_style_sheet_is_the_responses_own(superuser: Client) -> None:
    seen = []
    for _ in range(2):
        response = superuser.get("/admin/")
        nonces = re.findall(r"'nonce-([\w-]+)'", response["Content-Security-Policy"])
        assert re.findall(r'nonce="([^"]*)"', response.content.decode()) == nonces
        seen += nonces
    assert len({*seen}) == 2


def test_the_check_of_headers_can_fail() -> None:
    assert list(problems({})) != []
    loose = {"Content-Security-Policy": "; ".join(SOURCES).replace("script-src", "script-src 'unsafe-eval'")}
    assert "script-src 'unsafe-eval'" in list(problems(loose))
