"""The style sheets that unfold links on every page; static/queuemgr/admin.css says which class does what."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.templatetags.static import static


def _file(name: str) -> Callable[[HttpRequest], str]:
    return lambda request: static(f"queuemgr/{name}")


admin = _file("admin.css")
"""The classes that our pages are built from."""

layout = _file("layout.css")
"""Menu, header and messages."""

list_layout = _file("list_layout.css")
"""Search, filters, actions and rows of lists."""

favicon = _file("sluicegate.svg")
