"""Workers: slots, busy slots, and whether their heartbeat is recent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import Count

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Lease, Worker
from queuemgr.models.work import live_span
from queuemgr.web.admin.read_only_admin import ReadOnlyAdmin


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = (
        "name", "host", "condition", "busy", "slots", "consumes", "started_at", "seen_at",
    )  # fmt: skip
    titles = {"condition": "condition", "busy": "busy", "consumes": "queues"}
    sortable_by = ()
    search_fields = ("name", "host")

    def read_page(self, rows: Sequence[Any]) -> None:
        now = database_now()
        held = Lease.objects.started().filter(worker__in=[row.pk for row in rows])
        busy = dict(held.order_by().values_list("worker_id").annotate(n=Count("*")))
        for row in rows:
            row.busy, row.condition = busy.get(row.pk, 0), _condition(row, now)
            row.consumes = ", ".join(row.queues)


def _condition(worker: Worker, now: datetime) -> str:
    """`live`, `draining` (it takes no more work) or `gone` (no recent heartbeat)."""
    if worker.seen_at not in live_span(now):
        return "gone"
    return "draining" if worker.draining_at else "live"
