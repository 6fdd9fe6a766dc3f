"""Queues: waiting executions and leases of each, the cap on waiting ones, and pausing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.http import HttpRequest

from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Queue
from queuemgr.operations import controls
from queuemgr.reporting.queue_depths import queue_counts
from queuemgr.web.admin.named_actions import NamedAdmin
from queuemgr.web.admin.pausing import PAUSE_AND_RESUME, PausingAdmin
from queuemgr.web.admin.read_only_admin import ReasonForm, actor_of
from queuemgr.web.page_registry import page

NOTHING = {"waiting": 0, "leased": 0, "running": 0}


class QueueForm(ReasonForm):
    class Meta:
        model = Queue
        fields = ("max_pending",)


@page(Queue)
class QueueAdmin(NamedAdmin, PausingAdmin):
    is_live = True
    form = QueueForm
    named_actions = PAUSE_AND_RESUME
    list_display = ("name", "phase", "priority", "waiting", "held", "paused")
    titles = {"waiting": "waiting / cap", "held": "leases"}
    list_filter = ("phase",)
    sortable_by = ("name", "phase", "priority")
    readonly_fields = ("acts", "phase", "priority", "waiting", "held", "paused")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        reason = ("reason",) if self.has_change_permission(request, obj) else ()
        shown = [name for name in self.readonly_fields if name != "paused" or obj.paused]
        return (*shown, "max_pending", *reason)

    def verbs(self, row: Any) -> Iterable[str]:
        yield "resume" if row.paused else "pause"

    def sentences(self, name: str) -> Sequence[str]:
        queue = self.row_named(name)
        if queue is None:
            raise BadInput(f"there is no queue {name!r}")
        self.read_page([queue])
        counts = f"{queue.waiting} waiting, {queue.held} leased or running."
        return [counts, f"{queue.paused[:1].upper()}{queue.paused[1:]}."] if queue.paused else [counts]

    def save_model(self, request: HttpRequest, obj: Queue, form: QueueForm, change: bool) -> None:
        values = form.changed_values("max_pending")
        if values:
            controls.edit_queue(obj.name, actor_of(request), **values)

    def read_page(self, rows: Sequence[Any]) -> None:
        super().read_page(rows)
        counts = {row["queue"]: row for row in queue_counts(database_now())}
        for row in rows:
            cap = f"{row.max_pending:,}" if row.max_pending else "no cap"
            count = counts.get(row.name, NOTHING)
            row.waiting = f"{count['waiting']:,} / {cap}"
            row.held = f"{count['leased'] + count['running']:,}"
