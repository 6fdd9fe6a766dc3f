"""A new bulk action: choose it, preview what it would change, start it. Only the start is a POST."""

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
from queuemgr.web.admin.bulk_form import BulkForm, read_request
from queuemgr.web.admin.read_only_admin import actor_of


def bulk_new(request: HttpRequest) -> HttpResponse:
    """GET: the form and a preview. POST: create and start the action."""
    if not request.user.has_perms(("queuemgr.add_bulkaction", "queuemgr.view_execution")):
        raise PermissionDenied
    if request.method == "POST":
        return _start(request)
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(("GET", "POST"))
    return _page(request, request.GET)


def allowed_verbs(request: HttpRequest) -> list[Action]:
    user = request.user
    return [verb for verb in ACTIONS.values() if user.has_perm(f"queuemgr.{verb.permission}")]


def _start(request: HttpRequest) -> HttpResponse:
    verb = ACTIONS.get(request.POST.get("verb", ""))
    if verb is not None and verb not in allowed_verbs(request):
        raise PermissionDenied
    try:
        reason = request.POST.get("reason", "").strip()[:200]
        action = bulk.begin(read_request(request.POST), actor_of(request, reason))
    except SluiceError as error:
        messages.error(request, f"Not started: {error}.")
        return _page(request, request.POST)
    messages.success(request, f"Started: {action} on {action.matched:,} executions.")
    return redirect("admin:queuemgr_bulkaction_change", action.pk)


def _page(request: HttpRequest, given: Any) -> HttpResponse:
    """The form with a preview, or with the error of an invalid filter or action."""
    verbs = allowed_verbs(request)
    preview, asked, problem = None, None, ""
    if given.get("verb") and any(verb.name == given["verb"] for verb in verbs):
        try:
            asked = read_request(given)
            preview = bulk.preview(asked)
        except SluiceError as error:
            problem = str(error)
    context = {
        **admin.site.each_context(request),
        "title": "New bulk action",
        "form": BulkForm(given, verbs),
        "may": verbs,
        "problem": problem,
        "preview": preview,
        "hidden": _hidden(given, preview) if preview else [],
        "everything": asked is not None and not asked.filters,
        "count": _count(preview) if preview else "",
        "per_minute": _per_minute(asked, preview) if asked and preview else "",
        "reason": given.get("reason", ""),
    }
    return TemplateResponse(request, "admin/queuemgr/bulk_new.html", context)


def _hidden(given: Any, preview: Preview) -> list[tuple[str, str]]:
    """The preview's filter, action and highest id, so that exactly these are started."""
    others = ("per_minute", "reason", "up_to", "csrfmiddlewaretoken")
    values = [(name, given[name]) for name in given if name not in others and given[name]]
    return [*values, ("up_to", str(preview.up_to))]


def _count(preview: Preview) -> str:
    return f"{'more than ' if preview.more else ''}{preview.matched:,}"


def _per_minute(asked: BulkRequest, preview: Preview) -> str:
    return str(preview.per_minute if asked.per_minute is None else asked.per_minute)
