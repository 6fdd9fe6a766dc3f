"""Workers: slots, busy slots, whether their heartbeat is recent; and draining and resuming them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Lease, Worker
from queuemgr.operations import workers
from queuemgr.operations.controls import Actor
from queuemgr.reporting import worker_history, worker_states
from queuemgr.reporting.dashboard.worker_table import queues_text
from queuemgr.web.admin.named_actions import NamedAction, NamedAdmin
from queuemgr.web.admin.read_only_admin import ReadOnlyAdmin, actor_of, render_page
from queuemgr.web.page_registry import page

DRAIN_EXPLAINED = (
    "These take no new work until they are resumed, also after a restart. They stay up and finish what runs."
)


class DrainForm(forms.Form):
    reason = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs={"class": "vTextField", "autofocus": True}),
        help_text="Shown beside the worker, and recorded in the audit log.",
    )


def _drain(name: str, given: Mapping[str, Any], by: Actor) -> str:
    return f"Drained: {name}." if workers.drain(name, by) else f"{name} was drained already."


def _resume(name: str, given: Mapping[str, Any], by: Actor) -> str:
    return f"Resumed: {name}." if workers.resume(name, by) else f"{name} was not drained."


@page(Worker)
class WorkerAdmin(NamedAdmin, ReadOnlyAdmin):
    is_live = True
    named_actions = (
        NamedAction(
            "drain", "It takes no new work until it is resumed, also after a restart. It stays up and "
            "finishes what runs; what it has not started goes to others.", _drain, DrainForm,
        ),
        NamedAction("resume", "It takes work from its queues again.", _resume),
    )  # fmt: skip
    actions: Any = ("drain", "resume")
    list_display = (
        "name", "host", "condition", "drained", "busy", "slots", "of_async_slots", "consumes", "started_at",
        "seen_at",
    )  # fmt: skip
    titles = {
        "condition": "condition",
        "drained": "drained",
        "busy": "busy",
        "of_async_slots": "async slots",
        "consumes": "queues",
    }
    sortable_by = ("name", "host", "slots", "started_at", "seen_at")
    search_fields = ("name", "host")
    has_history = True
    own_page = "worker"

    def own_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        now = database_now()
        state, history = worker_states.states([row], now)[0], worker_history.of_worker(row.name, now)
        usual = {step.step: step.of_all.p95 for step in history.steps}
        return {
            "title": f"Worker {row.name}",
            "worker": row,
            "state": state,
            "share": min(1.0, state.busy / state.slots) if state.slots else 0.0,
            "queues": queues_text(row.queues),
            "running": [_running(lease, usual, now) for lease in worker_history.running(row.pk)],
            "history": history,
            "rows": [*history.steps, history.total] if len(history.steps) > 1 else history.steps,
            "now": now,
        }

    def verbs(self, row: Any) -> Iterable[str]:
        yield "resume" if row.drained else "drain"

    def has_drain_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("queuemgr.drain_worker"))

    def read_page(self, rows: Sequence[Any]) -> None:
        for row, state in zip(rows, worker_states.states(rows, database_now()), strict=True):
            row.busy, row.condition, row.drained = state.busy, state.condition, state.drained
            row.of_async_slots = state.of_async_slots
            row.consumes = ", ".join(row.queues)

    def row_named(self, name: str) -> Worker | None:
        return Worker.objects.filter(name=name).order_by("-seen_at").first()

    def sentences(self, name: str) -> Sequence[str]:
        row = self.row_named(workers.find(name))
        if row is None:
            return ["No worker of this name is up."]
        state = worker_states.states([row], database_now())[0]
        drained = f"; {state.drained}" if state.drained else ""
        return [f"{state.condition.capitalize()}, {state.busy:,} of {state.slots:,} slots busy{drained}."]

    @admin.action(description="Drain…", permissions=["drain"])
    def drain(self, request: HttpRequest, queryset: QuerySet[Worker]) -> HttpResponse | None:
        form = DrainForm(request.POST if "reason" in request.POST else None)
        if not form.is_valid():
            context = {"form": form, "rows": queryset, "checkbox": helpers.ACTION_CHECKBOX_NAME}
            shown = {"title": "Drain workers", "verb": "Drain", "explanation": DRAIN_EXPLAINED}
            return render_page(request, "stop_with_reason", opts=self.opts, **shown, **context)
        by = actor_of(request)
        drained = [name for name in _names(queryset) if workers.drain(name, by)]
        self._report(request, "Drained", drained, "Each of these was drained already.")
        return None

    @admin.action(description="Resume", permissions=["drain"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        by = actor_of(request)
        resumed = [name for name in _names(queryset) if workers.resume(name, by)]
        self._report(request, "Resumed", resumed, "None of these was drained.")

    def _report(self, request: HttpRequest, done: str, names: Sequence[str], nothing: str) -> None:
        text = f"{done}: {', '.join(names)}." if names else nothing
        self.message_user(request, text, messages.SUCCESS if names else messages.WARNING)


def _running(lease: Lease, usual: Mapping[str, float | None], now: datetime) -> tuple[Any, ...]:
    """The lease, how long it has run, the p95 of its step, and whether it has run longer than that."""
    elapsed = (now - lease.started_at).total_seconds() if lease.started_at else 0.0
    p95 = usual.get(f"{lease.phase}/{lease.step}")
    return lease, max(0.0, elapsed), p95, p95 is not None and elapsed > p95


def _names(queryset: QuerySet[Worker]) -> list[str]:
    return list(queryset.order_by("name").values_list("name", flat=True).distinct())
