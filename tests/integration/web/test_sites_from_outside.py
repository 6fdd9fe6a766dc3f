"""What somebody else's page or link can do with our pages, on the project's admin and on our own site: made
from the addresses there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, clear_url_caches, include, path

import queuemgr.web
from queuemgr.web import links

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]

FOREIGN = (
    "//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil.example", "https:evil.example",
    "///evil.example", "javascript:alert(1)", "http:///evil.example", "/\t/evil.example", " //evil.example",
    "//testserver@evil.example", "http://testserver.evil.example/", "data:text/html,x",
    "\x00//evil.example", "https://testserver:80@evil.example/", "//evil.example\\@testserver",
)  # fmt: skip
SITES = ("admin", "sluicegate")


class Urls:
    """Addresses of the project, and our own site beside them."""

    def __init__(self) -> None:
        own = path("queue/", queuemgr.web.site.urls)
        self.urlpatterns = [own, path("", include(settings.ROOT_URLCONF))]


@pytest.fixture(autouse=True)
def _our_own_site_too(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[None]:
    monkeypatch.setattr(links, "_sites", list(links._sites))
    settings.ROOT_URLCONF = Urls()
    clear_url_caches()
    yield
    clear_url_caches()


def addresses(site: str) -> list[str]:
    """Of every page of a site, with the first row of each list."""
    prefix, urls = ("/admin/", admin.site.urls) if site == "admin" else ("/queue/", queuemgr.web.site.urls)
    return sorted({prefix + route for route in routes(urls[0]) if not route.startswith("(?P<")})


def routes(patterns: Any, above: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = above + str(getattr(pattern.pattern, "_route", pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield filled(route)


def filled(route: str) -> str:
    parts = [part.partition(":") for part in route.replace("<", "\n<").replace(">", ">\n").split("\n")]
    return "".join(
        start + colon + rest if not start.startswith("<") else {"<slug": "csv", "<path": "1"}.get(start, "1")
        for start, colon, rest in parts
    )


OPEN = {"/admin/login/", "/queue/login/", "/admin/jsi18n/", "/queue/jsi18n/"}
"""For people without a login: the form, and words of scripts. Logging out asks nobody who they are."""


@pytest.mark.parametrize("site", SITES)
def test_without_a_login_every_page_leads_to_the_login(site: str) -> None:
    found, login = addresses(site), {"admin": "/admin/login/", "sluicegate": "/queue/login/"}[site]
    assert len(found) > 60
    for address in set(found) - OPEN:
        for answer in (Client().get(address), Client().post(address, {"reason": "x"})):
            leads = answer["Location"].partition("?")[0] if answer.status_code == 302 else ""
            assert leads in (login, *index_of(site)), f"{address}: {answer.status_code} {leads}"


def index_of(site: str) -> tuple[str, ...]:
    """Where somebody who logs out without being logged in is led."""
    return ("/admin/",) if site == "admin" else ("/queue/",)


@pytest.mark.parametrize("site", SITES)
def test_another_sites_page_changes_nothing_by_the_browser_of_somebody_logged_in(site: str) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    client.get(f"{index_of(site)[0]}login/")
    for address in addresses(site):
        for headers in ({}, {"Origin": "https://evil.example"}, {"Referer": "https://evil.example/"}):
            answer: HttpResponse = client.post(address, {"reason": "x", "post": "yes"}, headers=headers)
            assert answer.status_code in (403, 405), f"{address} {headers}: {answer.status_code}"


@pytest.mark.parametrize("site", SITES)
def test_a_login_leads_to_no_other_site_whatever_its_address_says(site: str) -> None:
    User.objects.create_superuser("root", password="a-password-of-root")
    own, ours = index_of(site)[0], {*index_of("admin"), *index_of("sluicegate")}
    for foreign in FOREIGN:
        sent = {"username": "root", "password": "a-password-of-root", "next": foreign}
        for query in ({}, {"next": foreign}):
            answer = Client().post(f"{own}login/", sent, query_params=query)
            leads = answer.get("Location")
            assert leads in ours if answer.status_code == 302 else answer.status_code == 400, foreign
