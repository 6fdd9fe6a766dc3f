"""Batches: progress, ETA, first failures; closing and cancelling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.timesince import timesince
from django.views.decorators.http import require_POST, require_safe

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Batch
from queuemgr.operations import batches
from queuemgr.operations.controls import Actor
from queuemgr.reporting.batch_progress import progress_of
from queuemgr.web.admin.read_only_admin import ReadOnlyAdmin, actor_of, column, progress_bar

FIRST_FAILURES = 10
STATES = ("waiting", "running", "done", "failed", "skipped", "cancelled")
"""The counts of a progress, which are also states to filter executions by."""


class EndFilter(admin.SimpleListFilter):
    title = "batch"
    parameter_name = "is"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("open", "open"), ("closed", "closed"), ("cancelled", "cancelled")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        narrow = {
            "open": {"closed_at__isnull": True},
            "closed": {"closed_at__isnull": False, "cancelled_at__isnull": True},
            "cancelled": {"cancelled_at__isnull": False},
        }
        return queryset.filter(**narrow.get(self.value() or "", {}))


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin):
    list_display = ("name", "flow", "state", "progress_shown", "failures", "eta", "created_by", "age")
    list_filter = (EndFilter,)
    search_fields = ("name__startswith",)
    search_help_text = "A prefix of the name."
    sortable_by = ()
    has_history = True

    def read_page(self, rows: Sequence[Any]) -> None:
        found, now = progress_of(rows), database_now()
        for row in rows:
            progress = found[row.pk]
            row.state = batches.status_of(row)
            row.progress_shown = progress_bar(progress.percent, f"{progress.ended:,} of {progress.total:,}")
            row.failures = f"{progress.failed:,}"
            row.eta = f"{progress.eta:%Y-%m-%d %H:%M} UTC" if progress.eta else ""
            row.age = timesince(row.created_at, now, depth=1)

    state = column("state")
    progress_shown = column("progress_shown", "progress")
    failures = column("failures", "failed")
    eta = column("eta", "ETA")
    age = column("age")

    def get_urls(self) -> list[URLPattern]:
        def page(view: Callable[..., Any]) -> Any:
            return self.admin_site.admin_view(view)

        mine = [
            path("<int:pk>/close/", page(self.close_view), name="batch_close"),
            path("<int:pk>/cancel/", page(self.cancel_view), name="batch_cancel"),
        ]
        return [*mine, *super().get_urls()]

    @method_decorator(require_safe)
    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        batch = self.get_object(request, object_id)
        if batch is None:
            return redirect("admin:queuemgr_batch_changelist")
        if not self.has_view_permission(request, batch):
            raise PermissionDenied
        may = request.user.has_perm("queuemgr.change_batch")
        context = {
            **self.admin_site.each_context(request),
            **_details(batch),
            "title": f"Batch {batch.name}",
            "opts": self.opts,
            "may_close": may and batch.closed_at is None,
            "may_cancel": may and batch.cancelled_at is None,
        }
        return TemplateResponse(request, "admin/queuemgr/batch.html", context)

    @method_decorator(require_POST)
    def close_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        def act(batch: Batch, who: Actor) -> str:
            closed = batches.close(batch, who)
            return "Closed: nothing more may be added." if closed else "It was closed already."

        return self._act(request, pk, act)

    @method_decorator(require_POST)
    def cancel_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        def act(batch: Batch, who: Actor) -> str:
            return f"Cancelled: {batches.cancel(batch, who):,} unfinished executions."

        return self._act(request, pk, act)

    def _act(self, request: HttpRequest, pk: int, act: Callable[[Batch, Actor], str]) -> HttpResponse:
        if not request.user.has_perm("queuemgr.change_batch"):
            raise PermissionDenied
        batch = Batch.objects.filter(pk=pk).first()
        if batch is None:
            return redirect("admin:queuemgr_batch_changelist")
        reason = request.POST.get("reason", "").strip()[:200]
        messages.success(request, act(batch, actor_of(request, reason)))
        return redirect("admin:queuemgr_batch_change", pk)


def _details(batch: Batch) -> dict[str, Any]:
    found = batches.progress(batch)
    failed = batch.executions.failed().defer("payload", "context").order_by("batch_seq")
    return {
        "batch": batch,
        "progress": found,
        "counts": [(state, getattr(found, state)) for state in STATES],
        "state": batches.status_of(batch),
        "rules": batches.rules_of(batch) or "best effort: everything runs",
        "first_failures": failed[:FIRST_FAILURES],
    }
