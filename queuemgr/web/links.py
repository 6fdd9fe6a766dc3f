"""Addresses of our pages, on the admin site that a request is for, and links to them."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from django.contrib import admin
from django.contrib.admin import AdminSite
from django.urls import NoReverseMatch, reverse
from django.utils.html import escape, format_html
from django.utils.http import urlencode

from queuemgr.reporting.search.found import Found

_asked: ContextVar[AdminSite | None] = ContextVar("queuemgr_site", default=None)
"""The site whose page is being made."""

_sites: list[AdminSite] = []
"""The sites that have our pages, in the order in which they got them."""


def has_our_pages(site: AdminSite) -> None:
    """Remember a site whose pages ours are."""
    if site not in _sites:
        _sites.append(site)


def sites() -> tuple[AdminSite, ...]:
    return tuple(_sites)


def asked_of(site: AdminSite | None) -> None:
    """Take addresses from this site, unless stated otherwise."""
    _asked.set(site)


def current_site() -> AdminSite:
    """The site whose page is being made; elsewhere the first one that has our pages and an address."""
    if asked := _asked.get():
        return asked
    reachable = (site for site in _sites if address_on(site, "queuemgr_execution_changelist"))
    return next(reachable, admin.site)


def address_on(site: AdminSite, page: str, *args: Any) -> str:
    """A page of this site; empty if no URL leads to it."""
    try:
        return reverse(f"{site.name}:{page}", args=args, current_app=site.name)
    except NoReverseMatch:
        return ""


def address(page: str, /, *args: Any, **query: Any) -> str:
    """A page of the admin with these filters."""
    path = reverse(f"admin:{page}", args=args, current_app=current_site().name)
    return f"{path}?{urlencode(query)}" if query else path


def link(address: str, text: Any) -> str:
    """A text, linked if there is an address."""
    return format_html('<a href="{}">{}</a>', address, text) if address else str(escape(text))


def page_of(found: Found) -> str:
    """The page of a hit of the search, on the site that is asked; empty if that has none."""
    if not found.page:
        return ""
    path = address_on(current_site(), found.page, *found.args)
    return f"{path}?{urlencode(found.query)}" if path and found.query else path
