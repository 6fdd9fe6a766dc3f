"""Changes: the record of what people did, through whatever they did it; and undoing one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    StreamingHttpResponse,
)
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import path, reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.views.decorators.http import require_POST

from queuemgr.base.errors import CannotUndo
from queuemgr.base.safe_text import as_json
from queuemgr.models import AuditEntry
from queuemgr.operations import audit_log
from queuemgr.operations.audit_log import in_words
from queuemgr.operations.executions import EDIT_PAYLOAD
from queuemgr.operations.undo import check, permission, undo
from queuemgr.web.admin.days_filter import DaysFilter
from queuemgr.web.admin.filters import ChangedFilter, recent_values
from queuemgr.web.admin.read_only_admin import ReadOnlyAdmin, actor_of

MOST_IN_A_FILE = 100_000
FILES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson; charset=utf-8"}


@dataclass(frozen=True)
class Undoing:
    """What the page offers someone who may undo: what is put back, or why it cannot be."""

    puts_back: str
    refused: str = ""


@admin.register(AuditEntry)
class ChangeAdmin(ReadOnlyAdmin):
    list_display = (
        "at", "actor", "source", "action", "target", "was", "became", "reason", "undone",
    )  # fmt: skip
    list_filter = (
        recent_values("actor"), recent_values("action"), recent_values("source"), ChangedFilter,
        DaysFilter,
    )  # fmt: skip
    search_fields = ("target",)
    search_help_text = (
        "Who; or the beginning of what was changed (a queue, a limit, flow/key); or, where neither is "
        f"found, words of the reason among the newest {audit_log.MAX_SEARCHED:,}."
    )
    sortable_by = ()
    fields = (
        ("at", "actor", "source"), ("action", "target", "affected"), "was", "became", "reason",
        "undone", "in_full",
    )  # fmt: skip
    readonly_fields = ("was", "became", "undone", "in_full")
    list_after_template = "admin/queuemgr/audit_log_files.html"
    change_form_outer_after_template = "admin/queuemgr/undo.html"
    most_in_a_file = f"{MOST_IN_A_FILE:,}"

    def get_urls(self) -> list[Any]:
        wrap = self.admin_site.admin_view
        return [
            path("export/<slug:kind>", wrap(self.export), name="queuemgr_auditentry_export"),
            path("<int:pk>/undo/", wrap(self.undo), name="queuemgr_auditentry_undo"),
            *super().get_urls(),
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Without what was edited of payloads, for those who may not see payloads."""
        every = super().get_queryset(request)
        sees = request.user.has_perm("queuemgr.view_payload")
        return every if sees else every.exclude(action=EDIT_PAYLOAD)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return audit_log.searched(queryset, search_term), False

    def read_page(self, rows: Sequence[Any]) -> None:
        undone_by = {
            pk: (by_pk, who)
            for pk, by_pk, who in AuditEntry.objects.filter(
                undoes__in=[row.pk for row in rows]
            ).values_list("undoes", "pk", "actor")
        }
        for row in rows:
            row.undone_by_whom = undone_by.get(row.pk)

    def get_object(self, request: HttpRequest, *given: Any, **named: Any) -> Any:
        change = super().get_object(request, *given, **named)
        if change is not None:
            self.read_page([change])
            change.undo = offered(request, change)
        return change

    def export(self, request: HttpRequest, kind: str) -> HttpResponseBase:
        """What the list's filters leave, newest first, as a file."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if kind not in FILES:
            raise Http404(f"there are: {', '.join(FILES)}")
        try:
            listed = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters as error:
            return HttpResponseBadRequest(
                f"no such filter: {error}; choose on the list", "text/plain"
            )
        rows = audit_log.as_dict(listed.order_by("-pk")[:MOST_IN_A_FILE])
        lines = audit_log.as_csv(rows) if kind == "csv" else _json_lines(rows)
        file = StreamingHttpResponse(lines, content_type=FILES[kind])
        file["Content-Disposition"] = f'attachment; filename="changes.{kind}"'
        return file

    @method_decorator(require_POST)
    def undo(self, request: HttpRequest, pk: int) -> HttpResponse:
        change = self.get_object(request, str(pk))
        if change is None:
            raise Http404
        if not may_undo(request, change):
            raise PermissionDenied
        try:
            undone = undo(change, actor_of(request, request.POST.get("reason", "")[:200]))
        except CannotUndo as error:
            self.message_user(request, f"Not undone: {error}", messages.ERROR)
            return redirect("admin:queuemgr_auditentry_change", pk)
        said = f"Undone: {undone.target} is {in_words(undone.after)} again."
        if undone.action_id:
            said = f"Being undone, in the background, by {undone.target}."
        self.message_user(request, said)
        return redirect("admin:queuemgr_auditentry_change", undone.pk)

    @admin.display(description="before", empty_value="")
    def was(self, change: AuditEntry) -> str:
        return in_words(change.before)

    @admin.display(description="after", empty_value="")
    def became(self, change: AuditEntry) -> str:
        return in_words(change.after)

    @admin.display(description="undone", empty_value="")
    def undone(self, change: Any) -> str:
        """That it was undone, or is an undoing, with the other change."""
        said = []
        if change.undone_by_whom:
            other, who = change.undone_by_whom
            said.append(_link(other, f"by {who}"))
        if change.undoes_id:
            said.append(_link(change.undoes_id, f"undoes {change.undoes_id}"))
        return format_html_join("", "{}", ((words,) for words in said))

    @admin.display(description="all that was kept")
    def in_full(self, change: AuditEntry) -> str:
        kept = as_json({"before": change.before, "after": change.after})
        wraps = (
            '<pre class="sg-quiet" style="white-space: pre-wrap; overflow-wrap: anywhere">{}</pre>'
        )
        return format_html(wraps, kept)


def may_undo(request: HttpRequest, change: AuditEntry) -> bool:
    """Whether this person holds `undo_auditentry` and the permission of what would be done."""
    try:
        needed = ("queuemgr.undo_auditentry", permission(change))
    except CannotUndo:
        return False
    return bool(request.user.has_perms(needed))


def offered(request: HttpRequest, change: AuditEntry) -> Undoing | None:
    """What the change's page says about undoing it, to those who may."""
    if not may_undo(request, change):
        return None
    before = in_words(change.before) or "what was before, in the background"
    puts_back = f"{change.target}: {before}"
    try:
        check(change)
    except CannotUndo as error:
        return Undoing(puts_back, str(error))
    return Undoing(puts_back)


def _link(pk: int, words: str) -> str:
    return format_html(
        '<a href="{}">{}</a> ', reverse("admin:queuemgr_auditentry_change", args=[pk]), words
    )


def _json_lines(rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    return (f"{as_json(row)}\n" for row in rows)
