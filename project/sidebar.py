"""The menu of the admin, with the entries the user has permission for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse


@dataclass(frozen=True)
class Entry:
    """A page by its URL name, shown to users with any of these permissions (none: to everyone)."""

    title: str
    icon: str
    """A name in the Material Symbols font of the theme."""
    page: str
    permissions: Sequence[str] = ()


def _list(title: str, icon: str, model: str) -> Entry:
    """The list of a model; `model` is `app.model`."""
    app, _, name = model.partition(".")
    permissions = (f"{app}.view_{name}", f"{app}.change_{name}")
    return Entry(title, icon, f"admin:{app}_{name}_changelist", permissions)


VIEW_EXECUTIONS = ("queuemgr.view_execution", "queuemgr.change_execution")

GROUPS: Sequence[tuple[str, Sequence[Entry]]] = (
    (
        "Work",
        (
            Entry("Dashboard", "dashboard", "admin:index"),
            _list("Executions", "list_alt", "queuemgr.execution"),
            Entry("Failures", "error", "admin:failures", VIEW_EXECUTIONS),
            _list("Attempts", "history", "queuemgr.attempt"),
            _list("Batches", "stacks", "queuemgr.batch"),
            _list("Bulk actions", "checklist", "queuemgr.bulkaction"),
        ),
    ),
    (
        "Flow control",
        (
            _list("Limits", "speed", "queuemgr.limit"),
            _list("Queues", "low_priority", "queuemgr.queue"),
            _list("Retry policies", "replay", "queuemgr.retrypolicy"),
            _list("Daily usage", "data_usage", "queuemgr.dailyusage"),
            _list("Workers", "memory", "queuemgr.worker"),
            _list("Audit log", "manage_history", "queuemgr.auditentry"),
        ),
    ),
    (
        "Papers",
        (
            Entry("Collection", "menu_book", "collection", ("pipeline.view_document",)),
            _list("Documents", "description", "pipeline.document"),
        ),
    ),
    (
        "Celery",
        (
            _list("Task results", "task_alt", "django_celery_results.taskresult"),
            _list("Group results", "folder", "django_celery_results.groupresult"),
        ),
    ),
    (
        "Access",
        (
            _list("Users", "person", "auth.user"),
            _list("Groups", "group", "auth.group"),
            _list("API tokens", "key", "queuemgr.apitoken"),
            Entry("API", "api", "api-v1:openapi-view"),
        ),
    ),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """unfold's callback for the groups of the menu."""
    groups: list[dict[str, Any]] = [
        {"title": title, "items": [*_allowed(request, entries), *_external(title)]}
        for title, entries in GROUPS
    ]
    _mark(request.path, [item for group in groups for item in group["items"]])
    return [group for group in groups if group["items"]]


def _mark(path: str, items: Sequence[dict[str, Any]]) -> None:
    """Mark the entry whose address is the longest prefix of this path; the dashboard needs an exact match."""
    index = _link("admin:index")
    matching = [i for i in items if path == i["link"] or (path.startswith(i["link"]) and i["link"] != index)]
    active = max(matching, key=lambda i: len(i["link"]), default=None)
    for item in items:
        item["active"] = item is active


def _allowed(request: HttpRequest, entries: Sequence[Entry]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        link = _link(entry.page)
        if link and (not entry.permissions or any(map(request.user.has_perm, entry.permissions))):
            yield {"title": entry.title, "icon": entry.icon, "link": link}


def _external(group: str) -> Iterator[dict[str, Any]]:
    """Flower, if its address is configured."""
    if group == "Celery" and settings.SLUICE_FLOWER_URL:
        yield {
            "title": "Flower", "icon": "local_florist", "link": settings.SLUICE_FLOWER_URL,
            "external": True,
        }  # fmt: skip


def _link(page: str) -> str:
    """Its address; empty if this installation does not have the page."""
    try:
        return reverse(page)
    except NoReverseMatch:
        return ""
