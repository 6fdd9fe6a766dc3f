"""The menu of our pages, with the entries the user has permission for; a project's own menu may have it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from queuemgr.web.links import current_site, sites


@dataclass(frozen=True)
class Entry:
    """A page by its URL name, shown to users with any of these permissions (none: to everyone)."""

    title: str
    icon: str
    """A name in the Material Symbols font of the theme."""
    page: str
    permissions: Sequence[str] = ()


Groups = Sequence[tuple[str, Sequence[Entry]]]


def list_of(title: str, icon: str, model: str) -> Entry:
    """The list of a model; `model` is `app.model`."""
    app, _, name = model.partition(".")
    permissions = (f"{app}.view_{name}", f"{app}.change_{name}")
    return Entry(title, icon, f"admin:{app}_{name}_changelist", permissions)


VIEW_EXECUTIONS = ("queuemgr.view_execution", "queuemgr.change_execution")

DASHBOARD = Entry("Dashboard", "dashboard", "admin:dashboard_page", VIEW_EXECUTIONS)
"""On a page of its own; a site of ours has it on its front page."""

LISTS_OF_WORK = (
    list_of("Executions", "list_alt", "queuemgr.execution"),
    Entry("Failures", "error", "admin:failures", VIEW_EXECUTIONS),
    list_of("Attempts", "history", "queuemgr.attempt"),
    Entry("Steps", "timer", "admin:step_times", ("queuemgr.view_attempt",)),
    list_of("Batches", "stacks", "queuemgr.batch"),
    list_of("Schedules", "schedule", "queuemgr.schedule"),
    list_of("Bulk actions", "checklist", "queuemgr.bulkaction"),
)
FRONT_PAGE = Entry("Dashboard", "dashboard", "admin:index")
WORK = ("Work", (FRONT_PAGE, *LISTS_OF_WORK))
FLOW_CONTROL = (
    "Flow control",
    (
        list_of("Limits", "speed", "queuemgr.limit"),
        list_of("Queues", "low_priority", "queuemgr.queue"),
        list_of("Retry policies", "replay", "queuemgr.retrypolicy"),
        list_of("Usage", "data_usage", "queuemgr.allowanceusage"),
        Entry("Costs", "payments", "admin:costs", ("queuemgr.view_allowanceusage",)),
        list_of("Webhooks", "webhook", "queuemgr.webhook"),
        Entry("Alerts", "notifications", "admin:alerts", ("queuemgr.view_alert",)),
        list_of("Workers", "memory", "queuemgr.worker"),
        list_of("Audit log", "manage_history", "queuemgr.auditentry"),
    ),
)
TOKENS = list_of("API tokens", "key", "queuemgr.apitoken")
API = Entry("API", "api", "api-v1:openapi-view")
ACCESS = ("Access", (TOKENS, API))
OURS: Groups = (WORK, FLOW_CONTROL, ACCESS)
"""The menu of a site that has no pages but ours."""


BESIDE = (DASHBOARD, *LISTS_OF_WORK, *FLOW_CONTROL[1], TOKENS)
"""The links on our pages where the menu of the site does not have them."""


def is_in_menu(context: Any) -> bool:
    """Whether the site's own menu, in the theme or Django's, has our pages: a site of ours, or the menu of a
    project that lists them."""
    request = context["request"]
    if any(hasattr(site, "own_template") for site in sites() if site.name == site_of(request)):
        return True
    executions = address_of("admin:queuemgr_execution_changelist", request)
    groups = context.get("sidebar_navigation") or []
    return any(item.get("link") == executions for group in groups for item in group.get("items", ()))


External = Mapping[str, Sequence[dict[str, Any]]]
"""Entries for pages of other programs, by the title of the group that ends with them."""


def navigation(
    request: HttpRequest, groups: Groups = OURS, external: External = MappingProxyType({})
) -> list[dict[str, Any]]:
    """The groups with their entries, as the theme shows them; one entry is marked as the page one is on."""
    shown: list[dict[str, Any]] = [
        {"title": title, "items": [*allowed(request, entries), *external.get(title, ())]}
        for title, entries in groups
    ]
    mark(request, [item for group in shown for item in group["items"]])
    return [group for group in shown if group["items"]]


def mark(request: HttpRequest, items: Sequence[dict[str, Any]]) -> None:
    """Mark the entry whose address is the longest prefix of this one; the dashboard needs an exact match."""
    path, index = request.path, address_of("admin:index", request)
    matching = [i for i in items if path == i["link"] or (path.startswith(i["link"]) and i["link"] != index)]
    active = max(matching, key=lambda i: len(i["link"]), default=None)
    for item in items:
        item["active"] = item is active


def allowed(request: HttpRequest, entries: Sequence[Entry]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        link = address_of(entry.page, request)
        if link and (not entry.permissions or any(map(request.user.has_perm, entry.permissions))):
            yield {"title": entry.title, "icon": entry.icon, "link": link}


def site_of(request: HttpRequest) -> str:
    """The name of the site; Django's own views of a project's site are not among those we stand around."""
    return getattr(request, "current_app", "") or current_site().name


def address_of(page: str, request: HttpRequest) -> str:
    """Its address on the site of this request; empty if this project does not have the page."""
    try:
        return reverse(page, current_app=site_of(request))
    except NoReverseMatch:
        return ""
