"""Batches: progress, ETA, first failures; closing and cancelling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.utils.timesince import timesince
from django.views.decorators.http import require_POST

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import UNBOUNDED, Batch
from queuemgr.operations import batches
from queuemgr.operations.controls import Actor
from queuemgr.reporting.batch_callbacks import callbacks_of
from queuemgr.reporting.batch_progress import progress_of
from queuemgr.web.admin.filters import ChoiceFilter
from queuemgr.web.admin.read_only_admin import ExtraPage, ReadOnlyAdmin, actor_of, progress_bar
from queuemgr.web.links import address
from queuemgr.web.page_registry import page

FIRST_FAILURES = 10
FIRST_INNER = 20
STATES = ("waiting", "running", "done", "failed", "skipped", "cancelled")
"""The counts of a progress, which are also states to filter executions by."""


class EndFilter(ChoiceFilter):
    title = "batch"
    parameter_name = "is"
    conditions = {
        "open": Q(closed_at__isnull=True),
        "closed": Q(closed_at__isnull=False, cancelled_at__isnull=True),
        "cancelled": Q(cancelled_at__isnull=False),
        "completed": Q(completed_at__isnull=False),
    }


@page(Batch)
class BatchAdmin(ReadOnlyAdmin):
    is_live = True
    list_display = ("name", "flow", "state", "progress_shown", "failures", "eta", "created_by", "age")
    titles = {
        "state": "state", "progress_shown": "progress", "failures": "failed", "eta": "ETA", "age": "age",
    }  # fmt: skip
    list_filter = (EndFilter,)
    search_fields = ("name__startswith",)
    search_help_text = "A prefix of the name."
    sortable_by = ()
    has_history = True
    own_page = "batch"

    def read_page(self, rows: Sequence[Any]) -> None:
        by_batch, now = progress_of(rows), database_now()
        for row in rows:
            progress = by_batch[row.pk]
            row.state = batches.status_of(row)
            row.progress_shown = progress_bar(progress.percent, f"{progress.ended:,} of {progress.total:,}")
            row.failures = f"{progress.failed:,}"
            row.eta = progress.eta_text
            row.age = timesince(row.created_at, now, depth=1)

    def pages(self) -> Iterable[ExtraPage]:
        yield ExtraPage("<int:pk>/close/", partial(self.act_view, act=_close), "batch_close")
        yield ExtraPage("<int:pk>/cancel/", partial(self.act_view, act=_cancel), "batch_cancel")

    def own_context(self, request: HttpRequest, row: Batch) -> dict[str, Any]:
        progress = batches.progress(row)
        failed = row.executions.failed().defer(*UNBOUNDED).order_by("batch_seq")
        return {
            "title": f"Batch {row.name}",
            "batch": row,
            "progress": progress,
            "counts": [(state, getattr(progress, state)) for state in STATES],
            "state": batches.status_of(row),
            "rules": batches.rules_of(row) or "best effort: everything runs",
            "callbacks": callbacks_of(row),
            "inner": row.children.all()[:FIRST_INNER],
            "first_failures": failed[:FIRST_FAILURES],
        }

    @method_decorator(require_POST)
    def act_view(self, request: HttpRequest, pk: int, act: Callable[[Batch, Actor], str]) -> HttpResponse:
        if not request.user.has_perm("queuemgr.change_batch"):
            raise PermissionDenied
        batch = Batch.objects.filter(pk=pk).first()
        if batch is None:
            return self.missing(request, pk)
        messages.success(request, act(batch, actor_of(request)))
        return redirect(address("queuemgr_batch_change", pk))


def _close(batch: Batch, by: Actor) -> str:
    return "Closed: nothing more may be added." if batches.close(batch, by) else "It was closed already."


def _cancel(batch: Batch, by: Actor) -> str:
    return f"Cancelled: {batches.cancel(batch, by):,} unfinished executions."
