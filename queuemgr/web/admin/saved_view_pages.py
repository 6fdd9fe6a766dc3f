"""Saved views of lists: opened, saved and deleted in the page of the list, by whoever may see it.

A view is the query string of a page. It is opened by a redirect to the list with it, so that its address is
still one that can be shared; what the list no longer offers is said, and the list is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.messages.storage.cookie import CookieStorage
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from queuemgr.base.errors import BadInput
from queuemgr.models import SavedView
from queuemgr.models.saved_views import MAX_VIEW_QUERY
from queuemgr.operations import saved_views
from queuemgr.operations.user_model import key_text
from queuemgr.web import crafted_requests
from queuemgr.web.admin.read_only_admin import ExtraPage, actor_of
from queuemgr.web.admin.saved_views import DELETE_ANY, SHARE, ViewForm, kept
from queuemgr.web.links import address, current_site


def pages() -> Iterator[ExtraPage]:
    yield ExtraPage("views/<int:pk>/", open_view, "savedview_open")
    yield ExtraPage("views/<int:pk>/delete/", delete_view, "savedview_delete")
    yield ExtraPage("views/save/", save_view, "savedview_save")


@require_safe
def open_view(request: HttpRequest, pk: int) -> HttpResponse:
    row = _row(request, pk)
    if problem := problem_of(request, row.list, row.query):
        messages.warning(request, f"The view {row.name!r} cannot be shown as it was saved: {problem}.")
        return redirect(_list_address(row.list))
    return _to_list(row.list, row.query)


@require_POST
def save_view(request: HttpRequest) -> HttpResponse:
    of_list = request.POST.get("list", "")
    _page_of(request, of_list)
    form, query = ViewForm(request.POST), kept(QueryDict(request.POST.get("query", "")[:MAX_VIEW_QUERY]))
    problem = problem_of(request, of_list, query)
    if request.POST.get("shared") and not request.user.has_perm(SHARE):
        raise PermissionDenied
    try:
        if problem or not form.is_valid():
            raise BadInput(problem or " ".join(str(text) for texts in form.errors.values() for text in texts))
        given = form.cleaned_data
        saved_views.save(of_list, given["name"], query, actor_of(request), shared=given["shared"])
    except BadInput as error:
        messages.error(request, f"Not saved: {error}")
    else:
        whose = "for everybody" if given["shared"] else "for you alone"
        messages.success(request, f"Saved: the view {given['name']!r}, {whose}.")
    return _to_list(of_list, "" if problem else query)


@require_POST
def delete_view(request: HttpRequest, pk: int) -> HttpResponse:
    row = _row(request, pk)
    if row.owner_key != key_text(request.user.pk) and not request.user.has_perm(DELETE_ANY):
        raise PermissionDenied
    saved_views.delete(row, actor_of(request))
    messages.success(request, f"Deleted: the view {row.name!r}.")
    return _to_list(row.list, row.query if not problem_of(request, row.list, row.query) else "")


def problem_of(request: HttpRequest, of_list: str, query: str) -> str:
    """Why the list cannot be shown with this query string, by the code that shows it; empty if it can."""
    asked = copy(request)
    asked.method, asked.GET = "GET", QueryDict(query)
    asked._messages = CookieStorage(asked)  # type: ignore[attr-defined]  # what it says goes nowhere
    try:
        crafted_requests.refuse(asked, None)
        shown = _page_of(request, of_list).get_changelist_instance(asked)
    except IncorrectLookupParameters:
        return "a value of its filters is none any more"
    except SuspiciousOperation as error:
        return str(error)
    return str(getattr(shown, "problem", ""))


def _page_of(request: HttpRequest, of_list: str) -> Any:
    """The pages of this list, for who may see it."""
    for model, page in current_site()._registry.items():
        if model._meta.label_lower == of_list and getattr(page, "has_saved_views", False):
            if not page.has_view_permission(request):
                raise PermissionDenied
            return page
    raise Http404


def _row(request: HttpRequest, pk: int) -> SavedView:
    row = SavedView.objects.filter(pk=pk).first()
    if row is None:
        raise Http404
    _page_of(request, row.list)
    if not (row.shared or row.owner_key == key_text(request.user.pk)):
        raise Http404  # no more is said of others' views than of those that do not exist
    return row


def _list_address(of_list: str) -> str:
    return address(f"{of_list.replace('.', '_')}_changelist")


def _to_list(of_list: str, query: str) -> HttpResponse:
    return redirect(f"{_list_address(of_list)}?{query}" if query else _list_address(of_list))
