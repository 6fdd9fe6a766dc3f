"""Queues: waiting executions and leases of each, the cap on waiting ones, and pausing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count
from django.http import HttpRequest

from queuemgr.flows.flow import queue_name
from queuemgr.models import Lease, Queue, Route
from queuemgr.operations import controls
from queuemgr.reporting import explain
from queuemgr.web.admin.pausing import PausingAdmin
from queuemgr.web.admin.read_only_admin import actor_of, column
from queuemgr.web.admin.reason_form import ReasonForm


class QueueForm(ReasonForm):
    class Meta:
        model = Queue
        fields = ("max_pending",)


@admin.register(Queue)
class QueueAdmin(PausingAdmin):
    form = QueueForm
    list_display = ("name", "phase", "priority", "waiting", "held", "paused")
    list_filter = ("phase",)
    sortable_by = ()
    reads_detail = True
    readonly_fields = ("phase", "priority", "waiting", "held", "paused")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        reason = ("reason",) if self.has_change_permission(request, obj) else ()
        shown = [name for name in self.readonly_fields if name != "paused" or obj.paused]
        return (*shown, "max_pending", *reason)

    def save_model(self, request: HttpRequest, obj: Queue, form: QueueForm, change: bool) -> None:
        values = form.changed_values("max_pending")
        if values:
            controls.edit_queue(obj.name, actor_of(request, form.cleaned_data["reason"]), **values)

    def read_page(self, rows: Sequence[Any]) -> None:
        super().read_page(rows)
        waiting, held = waiting_by_queue(), held_by_queue()
        for row in rows:
            cap = f"{row.max_pending:,}" if row.max_pending else "no cap"
            row.waiting = f"{waiting[row.name]:,} / {cap}"
            row.held = f"{held.get(row.name, 0):,}"

    waiting = column("waiting", "waiting / cap")
    held = column("held", "leases")


def waiting_by_queue() -> Counter[str]:
    """The number of waiting executions by queue."""
    by_route, waiting = explain.waiting_by_route(), Counter[str]()
    for pk, phase, priority in Route.objects.values_list("pk", "phase", "priority"):
        waiting[queue_name(phase, priority)] += by_route.get(pk, 0)
    return waiting


def held_by_queue() -> dict[str, int]:
    """The number of leases by queue."""
    held = Lease.objects.order_by().values_list("phase", "priority").annotate(n=Count("*"))
    return {queue_name(phase, priority): n for phase, priority, n in held}
