"""A new bulk action: choose it, preview what it would change, start it. Only the start is a POST."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect

from queuemgr.base.errors import BadInput, SluiceError
from queuemgr.flows.flow import PRIORITIES
from queuemgr.operations import bulk
from queuemgr.operations.bulk.actions import ACTIONS, Action
from queuemgr.reporting.filtering import FILTERS
from queuemgr.web.admin.execution_filters import choice_field, filter_field
from queuemgr.web.admin.read_only_admin import actor_of, render_page
from queuemgr.web.links import address

ARGUMENT = "to_"
"""Prefix of the field of an action's argument: `priority` is the filter."""

FIXED = ("per_minute", "reason", "up_to", "confirm", "csrfmiddlewaretoken")
"""Fields that are neither a filter nor an argument."""

MAX_PER_MINUTE = 2_000_000


class BulkForm(forms.Form):
    """An action with its argument and all filters, filled from the query string as they were entered."""

    def __init__(self, given: Any, actions: Iterable[Action]) -> None:
        super().__init__(initial={name: given[name] for name in given})
        self.fields |= {
            "verb": forms.ChoiceField(
                label="Action", choices=[(one.name, f"{one.name}: each {one.description}") for one in actions]
            ),
            "to_priority": choice_field(
                "New priority", [(name, name) for name in PRIORITIES], help_text="Only for priority."
            ),
            "to_run_after": forms.CharField(
                label="Not before", required=False,
                help_text="Only for reschedule. Format: 2026-11-28 06:00, UTC. A past time: now.",
            ),
            **{name: filter_field(name, given.get(name, "")) for name in FILTERS},
        }  # fmt: skip

    def action_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name not in FILTERS]

    def filter_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in FILTERS]


def read_request(given: Any) -> bulk.BulkRequest:
    """The bulk action of a query or a posted form. Unknown names are passed as filters and refused
    there: a mistyped filter must not match every execution. Raises `BadInput`."""
    values = {name: given[name].strip() for name in given if name not in FIXED and given[name].strip()}
    action = values.pop("verb", "")
    filters: dict[str, Any] = {n: v for n, v in values.items() if not n.startswith(ARGUMENT)}
    if "ids" in filters:
        filters["ids"] = _ids(filters["ids"])
    return bulk.BulkRequest(
        action=action,
        filters=filters,
        arguments={n.removeprefix(ARGUMENT): v for n, v in values.items() if n.startswith(ARGUMENT)},
        per_minute=_number(given, "per_minute", MAX_PER_MINUTE),
        up_to=_number(given, "up_to", 2**63 - 1),
    )


def _ids(text: str) -> Any:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise BadInput(f"ids {text[:60]!r} are not comma-separated numbers") from None


def _number(given: Any, name: str, maximum: int) -> int | None:
    text = given.get(name, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or int(text) > maximum:
        raise BadInput(f"{name} {text[:60]!r} is not a whole number from 0 to {maximum:,}")
    return int(text)


def bulk_new(request: HttpRequest) -> HttpResponse:
    """GET: the form and a preview. POST: create and start the action."""
    if not request.user.has_perms(("queuemgr.add_bulkaction", "queuemgr.view_execution")):
        raise PermissionDenied
    if request.method == "POST":
        return _start(request)
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(("GET", "POST"))
    return _page(request, request.GET)


def _allowed_actions(request: HttpRequest) -> dict[str, Action]:
    may = request.user.has_perm
    return {name: action for name, action in ACTIONS.items() if may(f"queuemgr.{action.permission}")}


def _start(request: HttpRequest) -> HttpResponse:
    name = request.POST.get("verb", "")
    if name in ACTIONS and name not in _allowed_actions(request):
        raise PermissionDenied
    try:
        action = bulk.begin(
            read_request(request.POST), actor_of(request), _number(request.POST, "confirm", 2**31 - 1)
        )
    except SluiceError as error:
        messages.error(request, f"Not started: {error}.")
        return _page(request, request.POST)
    messages.success(request, f"Started: {action} on {action.matched:,} executions.")
    return redirect(address("queuemgr_bulkaction_change", action.pk))


def _page(request: HttpRequest, given: Any) -> HttpResponse:
    """The form with a preview, or with the error of an invalid filter or action."""
    allowed = _allowed_actions(request)
    context: dict[str, Any] = {"form": BulkForm(given, allowed.values()), "may": allowed}
    if given.get("verb") in allowed:
        try:
            context |= _preview(given)
        except SluiceError as error:
            context["problem"] = str(error)
    return render_page(request, "bulk_new", title="New bulk action", **context)


def _preview(given: Any) -> dict[str, Any]:
    """What would change; `hidden`: its filter, action, highest id and count: only these are started."""
    asked = read_request(given)
    preview = bulk.preview(asked)
    values = [(name, given[name]) for name in given if name not in FIXED and given[name]]
    return {
        "preview": preview,
        "hidden": [*values, ("up_to", str(preview.up_to)), ("confirm", str(preview.matched + preview.more))],
        "everything": not asked.filters,
        "count": f"{'more than ' if preview.more else ''}{preview.matched:,}",
        "per_minute": str(preview.per_minute if asked.per_minute is None else asked.per_minute),
        "reason": given.get("reason", ""),
    }
