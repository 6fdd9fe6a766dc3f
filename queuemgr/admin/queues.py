"""Queues: what waits and what is held in each, and pausing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count

from queuemgr import explain
from queuemgr.admin.pausing import PausingAdmin
from queuemgr.admin.read_only import ReadOnlyAdmin
from queuemgr.flow import queue_name
from queuemgr.models import Lease, Queue, Route


@admin.register(Queue)
class QueueAdmin(PausingAdmin, ReadOnlyAdmin):
    list_display = ("name", "phase", "priority", "waiting", "held", "paused")
    list_filter = ("phase",)
    sortable_by = ()

    def read_page(self, rows: Sequence[Any]) -> None:
        super().read_page(rows)
        waiting, held = waiting_by_queue(), held_by_queue()
        for row in rows:
            row.waiting, row.held = waiting[row.name], held.get(row.name, 0)

    @admin.display(description="waiting")
    def waiting(self, row: Any) -> str:
        return f"{row.waiting:,}"

    @admin.display(description="held by workers")
    def held(self, row: Any) -> str:
        return f"{row.held:,}"


def waiting_by_queue() -> Counter[str]:
    """How many executions wait in each queue."""
    by_route, waiting = explain.waiting_by_route(), Counter[str]()
    for pk, phase, priority in Route.objects.values_list("pk", "phase", "priority"):
        waiting[queue_name(phase, priority)] += by_route.get(pk, 0)
    return waiting


def held_by_queue() -> dict[str, int]:
    """How many leases each queue's work holds."""
    held = Lease.objects.order_by().values_list("phase", "priority").annotate(n=Count("pk"))
    return {queue_name(phase, priority): n for phase, priority, n in held}
