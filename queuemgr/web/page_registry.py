"""Our admin pages, which are on no site until a project says on which."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from django.contrib import admin
from django.contrib.admin import AdminSite
from django.db.models import Model

from queuemgr.web import links
from queuemgr.web.guarded_site import guarded_page

Page = TypeVar("Page")

_pages: dict[type[Model], type[Any]] = {}
"""The class of each model's pages."""


def page(model: type[Model]) -> Callable[[type[Page]], type[Page]]:
    """Make this class the pages of a model."""

    def keep(cls: Any) -> Any:
        _pages[model] = guarded_page(cls)
        return cls

    return keep


def join_site(site: AdminSite | None = None) -> AdminSite:
    """Add our pages to an admin site of the project, its default one unless another is given.

    Nothing else of the site changes: our pages are guarded, and its own stay as they are.
    """
    site = admin.site if site is None else site
    import_module("queuemgr.web.admin")
    for model, cls in _pages.items():
        if not site.is_registered(model):
            site.register(model, cls)
    links.has_our_pages(site)
    return site
