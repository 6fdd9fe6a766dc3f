"""The page of the search box, which is on every page of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse

from queuemgr.reporting import search
from queuemgr.reporting.search.found import Group
from queuemgr.web import links, menu
from queuemgr.web.admin.read_only_admin import render_page
from queuemgr.web.links import address
from queuemgr.web.search_box import TEXT


def search_page(request: HttpRequest) -> HttpResponse:
    """What matches, by kind: only of what the user may see the list of. Pages of the menu come first."""
    text = search.asked(request.GET.get(TEXT, ""))
    groups = [_shown(group, text) for group in search.search(text, request.user.has_perm)]
    pages = [item for item in menu.allowed(request, menu.BESIDE) if text and _is_in(text, item["title"])]
    found = sum(len(group["rows"]) for group in groups) + len(pages)
    context = {"title": "Search", "text": text, "pages": pages, "groups": groups, "found": found}
    return render_page(request, "search", **context)


def _is_in(text: str, title: str) -> bool:
    return text.casefold() in title.casefold()


def _shown(group: Group, text: str) -> dict[str, Any]:
    rows = [(*_parts(each.text, text), each.detail, links.page_of(each)) for each in group.found]
    return {"group": group, "rows": rows, "all": dict(_all(text)).get(group.kind, "")}


def _parts(name: str, text: str) -> tuple[str, str, str]:
    """What stands before the text in a name, the text as the name has it, and what stands behind it."""
    at = name.casefold().find(text.casefold())
    end = at + len(text)
    return (name, "", "") if at < 0 else (name[:at], name[at:end], name[end:])


def _all(text: str) -> Iterator[tuple[str, str]]:
    """The list that has all hits of a kind, where it has a filter that finds them."""
    yield "Failures", address("queuemgr_execution_changelist", text=text)
