"""A Django app of its own: admin pages, HTTP API, metrics and health.

    path("queue/", queuemgr.web.site.urls)      an admin site of its own for our pages
    join_site(admin.site)                       our pages in an admin site of the project
    path("", include("queuemgr.web.urls"))      API, health checks and metrics

Nothing of it is on a page of the project until one of these is in its `urls.py`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from queuemgr.base.extras import need_extra

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite

    from queuemgr.web.page_registry import join_site

    site: AdminSite

need_extra("web", "ninja", "prometheus_client", "waitress")

__all__ = ["join_site", "site"]


def __getattr__(name: str) -> Any:
    """What needs Django's apps to be ready is imported when it is asked for."""
    if name == "join_site":
        from queuemgr.web.page_registry import join_site

        return join_site
    if name == "site":
        return _site()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _site() -> Any:
    from queuemgr.web import own_site

    return own_site.make()
