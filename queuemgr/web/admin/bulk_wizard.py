"""A new bulk action: choose, see what it would meet, give a reason, start. Only the last changes
anything, and only the last is a POST."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.response import TemplateResponse

from queuemgr.base.errors import SluiceError
from queuemgr.operations import bulk
from queuemgr.operations.bulk import BulkRequest, Preview
from queuemgr.operations.bulk.actions import ACTIONS, Action
from queuemgr.web.admin.bulk_form import BulkForm, wanted
from queuemgr.web.admin.read_only_admin import actor_of


def bulk_new(request: HttpRequest) -> HttpResponse:
    """GET: the form, and the preview of what it holds. POST: create and start."""
    if not request.user.has_perms(("queuemgr.add_bulkaction", "queuemgr.view_execution")):
        raise PermissionDenied
    if request.method == "POST":
        return _start(request)
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(("GET", "POST"))
    return _page(request, request.GET)


def allowed_verbs(request: HttpRequest) -> list[Action]:
    """Those this person may use."""
    user = request.user
    return [verb for verb in ACTIONS.values() if user.has_perm(f"queuemgr.{verb.permission}")]


def _start(request: HttpRequest) -> HttpResponse:
    verb = ACTIONS.get(request.POST.get("verb", ""))
    if verb is not None and verb not in allowed_verbs(request):
        raise PermissionDenied
    try:
        reason = request.POST.get("reason", "").strip()[:200]
        action = bulk.begin(wanted(request.POST), actor_of(request, reason))
    except SluiceError as error:
        messages.error(request, f"Not started: {error}.")
        return _page(request, request.POST)
    messages.success(request, f"Started: {action} on {action.matched:,} executions.")
    return redirect("admin:queuemgr_bulkaction_change", action.pk)


def _page(request: HttpRequest, given: Any) -> HttpResponse:
    """The page for what is asked so far; a bad filter or verb is named in it."""
    verbs = allowed_verbs(request)
    seen, asked, problem = None, None, ""
    if given.get("verb") and any(verb.name == given["verb"] for verb in verbs):
        try:
            asked = wanted(given)
            seen = bulk.preview(asked)
        except SluiceError as error:
            problem = str(error)
    context = {
        **admin.site.each_context(request),
        "title": "New bulk action",
        "form": BulkForm(given, verbs),
        "may": verbs,
        "problem": problem,
        "seen": seen,
        "hidden": _hidden(given, seen) if seen else [],
        "everything": asked is not None and not asked.filters,
        "count": _count(seen) if seen else "",
        "per_minute": _pace(asked, seen) if asked and seen else "",
        "reason": given.get("reason", ""),
    }
    return TemplateResponse(request, "admin/queuemgr/bulk_new.html", context)


def _hidden(given: Any, seen: Preview) -> list[tuple[str, str]]:
    """What was previewed is what is started: its filter, its verb and its last id."""
    others = ("per_minute", "reason", "up_to", "csrfmiddlewaretoken")
    kept = [(name, given[name]) for name in given if name not in others and given[name]]
    return [*kept, ("up_to", str(seen.up_to))]


def _count(seen: Preview) -> str:
    return f"{'more than ' if seen.more else ''}{seen.matched:,}"


def _pace(asked: BulkRequest, seen: Preview) -> str:
    return str(seen.per_minute if asked.per_minute is None else asked.per_minute)
