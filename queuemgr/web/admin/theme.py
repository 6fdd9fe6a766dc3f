"""The style sheets that unfold links on every page; static/queuemgr/admin.css says which class does what."""

from __future__ import annotations

from django.http import HttpRequest
from django.templatetags.static import static


def admin(request: HttpRequest) -> str:
    """The classes that our pages are built from."""
    return static("queuemgr/admin.css")


def layout(request: HttpRequest) -> str:
    """Menu, header and messages."""
    return static("queuemgr/layout.css")


def list_layout(request: HttpRequest) -> str:
    """Search, filters, actions and rows of lists."""
    return static("queuemgr/list_layout.css")


def favicon(request: HttpRequest) -> str:
    return static("queuemgr/sluicegate.svg")
