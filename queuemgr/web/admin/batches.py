"""Batches: how far each is, when it is likely to be done, what failed first; close and cancel."""

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
from django.utils.html import format_html
from django.utils.timesince import timesince
from django.views.decorators.http import require_POST, require_safe

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Batch
from queuemgr.operations import batches
from queuemgr.operations.controls import Actor
from queuemgr.reporting.batch_progress import Progress, progress_of
from queuemgr.web.admin.read_only_admin import ReadOnlyAdmin, actor_of

FIRST_FAILURES = 10
STATES = ("waiting", "running", "done", "failed", "skipped", "cancelled")
"""What a progress counts, as executions are filtered by it."""


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
    list_display = ("name", "flow", "standing", "how_far", "failures", "eta", "created_by", "age")
    list_filter = (EndFilter,)
    search_fields = ("name__startswith",)
    search_help_text = "The beginning of a name."
    sortable_by = ()
    recorded = True

    def read_page(self, rows: Sequence[Any]) -> None:
        found, now = progress_of(rows), database_now()
        for row in rows:
            row.progress = found[row.pk]
            row.age = timesince(row.created_at, now, depth=1)

    @admin.display(description="is")
    def standing(self, batch: Batch) -> str:
        return batches.status_of(batch)

    @admin.display(description="progress")
    def how_far(self, batch: Any) -> str:
        found: Progress = batch.progress
        return format_html(
            '<span class="sg-bar" role="img" aria-label="{0} percent" style="min-width: 5rem">'
            '<span style="width: {0}%"></span></span>{1} of {2}',
            found.percent, f"{found.ended:,}", f"{found.total:,}",
        )  # fmt: skip

    @admin.display(description="failed")
    def failures(self, batch: Any) -> str:
        return f"{batch.progress.failed:,}"

    @admin.display(description="likely done", empty_value="")
    def eta(self, batch: Any) -> str:
        eta = batch.progress.eta
        return f"{eta:%Y-%m-%d %H:%M} UTC" if eta else ""

    @admin.display(description="age")
    def age(self, batch: Any) -> str:
        return str(batch.age)

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
        """How far it is, and what failed first."""
        batch = self.get_object(request, object_id)
        if batch is None:
            return redirect("admin:queuemgr_batch_changelist")
        if not self.has_view_permission(request, batch):
            raise PermissionDenied
        may = request.user.has_perm("queuemgr.change_batch")
        context = {
            **self.admin_site.each_context(request),
            **_facts(batch),
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
            return "Closed: nothing more may be added." if closed else "It was closed before."

        return self._act(request, pk, act)

    @method_decorator(require_POST)
    def cancel_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        def act(batch: Batch, who: Actor) -> str:
            return f"Cancelled: {batches.cancel(batch, who):,} executions had not ended."

        return self._act(request, pk, act)

    def _act(
        self, request: HttpRequest, pk: int, act: Callable[[Batch, Actor], str]
    ) -> HttpResponse:
        if not request.user.has_perm("queuemgr.change_batch"):
            raise PermissionDenied
        batch = Batch.objects.filter(pk=pk).first()
        if batch is None:
            return redirect("admin:queuemgr_batch_changelist")
        reason = request.POST.get("reason", "").strip()[:200]
        messages.success(request, act(batch, actor_of(request, reason)))
        return redirect("admin:queuemgr_batch_change", pk)


def _facts(batch: Batch) -> dict[str, Any]:
    found = batches.progress(batch)
    failed = batch.executions.failed().defer("payload", "context").order_by("batch_seq")
    return {
        "batch": batch,
        "progress": found,
        "counts": [(state, getattr(found, state)) for state in STATES],
        "standing": batches.status_of(batch),
        "rules": batches.rules_of(batch) or "best effort: everything runs",
        "first_failures": failed[:FIRST_FAILURES],
    }
