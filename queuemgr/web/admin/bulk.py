"""Bulk actions: request, progress and result of each; stopping and resuming them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django.utils.timesince import timesince
from django.views.decorators.http import require_POST

from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import ActionState, AuditEntry, BulkAction
from queuemgr.operations import bulk
from queuemgr.operations.bulk.actions import action_named
from queuemgr.operations.bulk.audit import START
from queuemgr.operations.bulk.progress import filter_in_words, progress, result_in_words, what_in_words
from queuemgr.operations.controls import Actor
from queuemgr.web.admin.audit_log import may_undo
from queuemgr.web.admin.bulk_wizard import bulk_new
from queuemgr.web.admin.failures import failures, keep_failures
from queuemgr.web.admin.filters import recent_values
from queuemgr.web.admin.read_only_admin import ExtraPage, ReadOnlyAdmin, actor_of, progress_bar
from queuemgr.web.links import address
from queuemgr.web.page_registry import page

ENDED_EARLY = (ActionState.STOPPED, ActionState.FAILED)


@page(BulkAction)
class BulkActionAdmin(ReadOnlyAdmin):
    list_display = (
        "number", "what", "which", "state", "progress_shown", "result", "actor", "reason", "age",
    )  # fmt: skip
    titles = {
        "number": "action", "what": "does", "which": "filter", "progress_shown": "progress",
        "result": "result", "age": "age",
    }  # fmt: skip
    list_filter = ("state", recent_values("verb"), recent_values("actor"))
    sortable_by = ()
    list_per_page = 50
    list_tools_template = "admin/queuemgr/bulk_tools.html"
    own_page = "bulk_action"

    def read_page(self, rows: Sequence[Any]) -> None:
        now = database_now()
        for row in rows:
            percent = progress(row, now).percent
            row.number = f"#{row.pk}"
            row.what, row.which = what_in_words(row), filter_in_words(row)
            row.progress_shown = progress_bar(percent, f"{percent}% of {row.matched:,}")
            row.result = result_in_words(row)
            row.age = timesince(row.created_at, now, depth=1)

    def pages(self) -> Iterable[ExtraPage]:
        yield ExtraPage("new/", bulk_new, "bulk_new")
        yield ExtraPage("failures/", failures, "failures")
        yield ExtraPage("failures/keep/", keep_failures, "keep_failures")
        yield ExtraPage("<int:pk>/progress/", self.progress_view, "bulk_progress")
        yield ExtraPage("<int:pk>/stop/", self.stop_view, "bulk_stop")
        yield ExtraPage("<int:pk>/resume/", self.resume_view, "bulk_resume")

    def own_context(self, request: HttpRequest, row: BulkAction) -> dict[str, Any]:
        return {
            **_progress(row),
            "title": f"Bulk action {row}",
            "start": _undoable_start(request, row),
            "may_resume": row.state in ENDED_EARLY and _may_start(request, row),
        }

    def progress_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """The part of the page that is refreshed."""
        action = self.get_object(request, str(pk))
        if action is None:
            return HttpResponse(status=404)
        if not self.has_view_permission(request, action):
            raise PermissionDenied
        return render(request, "admin/queuemgr/bulk_progress.html", _progress(action))

    @method_decorator(require_POST)
    def stop_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        if not request.user.has_perm("queuemgr.stop_bulkaction"):
            raise PermissionDenied
        return self._act(request, pk, lambda who: f"Stopped: {bulk.stop(pk, who)}.")

    @method_decorator(require_POST)
    def resume_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        action = BulkAction.objects.filter(pk=pk).first()
        if action is None or not _may_start(request, action):
            raise PermissionDenied
        return self._act(request, pk, lambda who: f"Started: {bulk.resume(pk, who)}, with the rest.")

    def _act(self, request: HttpRequest, pk: int, act: Callable[[Actor], str]) -> HttpResponse:
        try:
            messages.success(request, act(actor_of(request)))
        except BadInput as error:
            messages.error(request, f"{error}.")
        return redirect(address("queuemgr_bulkaction_change", pk))


def _progress(action: BulkAction) -> dict[str, Any]:
    now = database_now()
    return {
        "action": action,
        "what": what_in_words(action),
        "which": filter_in_words(action),
        "progress": progress(action, now),
        "now": now,
        "running": action.state == ActionState.RUNNING,
    }


def _may_start(request: HttpRequest, action: BulkAction) -> bool:
    return request.user.has_perms(action_named(action.verb).permissions)


def _undoable_start(request: HttpRequest, action: BulkAction) -> AuditEntry | None:
    """The audit entry by which the action can be undone; None if it cannot, or was."""
    if action.verb not in bulk.UNDONE_BY or action.state == ActionState.RUNNING:
        return None
    start = AuditEntry.objects.filter(action_id=action.pk, action=START, undone_by=None).first()
    return start if start and may_undo(request, start) else None
