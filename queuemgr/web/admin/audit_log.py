"""The audit log: list, export as CSV or JSON Lines, and undoing a change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.views.decorators.http import require_POST

from queuemgr.base.errors import CannotUndo
from queuemgr.base.safe_text import as_json
from queuemgr.models import AuditEntry
from queuemgr.operations import audit_log
from queuemgr.operations.audit_log import in_words
from queuemgr.operations.undo import check, permissions, undo
from queuemgr.web.admin.filters import DaysFilter, WhenFilter, linked_value, recent_values
from queuemgr.web.admin.read_only_admin import ExtraPage, ReadOnlyAdmin, actor_of
from queuemgr.web.links import address, link
from queuemgr.web.page_registry import page

MAX_EXPORTED = 100_000
FILES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson; charset=utf-8"}


@page(AuditEntry)
class AuditLogAdmin(ReadOnlyAdmin):
    list_display = (
        "at", "actor", "source", "action", "target", "was", "became", "reason", "undone",
    )  # fmt: skip
    list_filter = (
        recent_values("actor"), recent_values("action"), recent_values("source"), WhenFilter,
        DaysFilter, linked_value("target", "target"), linked_value("action_id", "bulk action"),
    )  # fmt: skip
    search_fields = ("target",)
    search_help_text = (
        "An actor; or a prefix of the target (a queue, a limit, flow/key); or, if neither is found, words "
        f"of the reason among the newest {audit_log.MAX_SEARCHED:,}."
    )
    sortable_by = ()
    reads_detail = True
    fields = (
        ("at", "actor", "source"), ("action", "target", "affected"), "was", "became", "reason",
        "undone", "in_full",
    )  # fmt: skip
    readonly_fields = ("was", "became", "undone", "in_full")
    titles = {"was": "before", "became": "after", "undone": "undone"}
    list_after_template = "admin/queuemgr/audit_log_files.html"
    change_form_outer_after_template = "admin/queuemgr/undo.html"
    max_exported = f"{MAX_EXPORTED:,}"

    def pages(self) -> Iterable[ExtraPage]:
        yield ExtraPage("export/<slug:kind>", self.export, "queuemgr_auditentry_export")
        yield ExtraPage("<int:pk>/undo/", self.undo, "queuemgr_auditentry_undo")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Without what the user may not see: edited payloads, tokens, accounts."""
        return audit_log.visible_to(request.user, super().get_queryset(request))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return audit_log.searched(queryset, search_term), False

    def read_page(self, rows: Sequence[Any]) -> None:
        undone_by = {undo.undoes_id: undo for undo in AuditEntry.objects.filter(undoes__in=rows)}
        for row in rows:
            row.was, row.became = in_words(row.before), in_words(row.after)
            row.undone = _undone(row, undone_by.get(row.pk))

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        entry = super().get_object(request, *args, **kwargs)
        if entry is not None:
            entry.undo = _undo_offer(request, entry)
        return entry

    def export(self, request: HttpRequest, kind: str) -> HttpResponseBase:
        """The filtered list as a file, newest first."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if kind not in FILES:
            raise Http404(f"there are: {', '.join(FILES)}")
        try:
            listed = self.get_changelist_instance(request).get_queryset(request)
        except (IncorrectLookupParameters, DisallowedModelAdminLookup) as error:
            return HttpResponseBadRequest(f"invalid filter: {error}", "text/plain")
        rows = audit_log.as_dict(listed.order_by("-pk")[:MAX_EXPORTED])
        lines = audit_log.as_csv(rows) if kind == "csv" else (f"{as_json(row)}\n" for row in rows)
        file = StreamingHttpResponse(lines, content_type=FILES[kind])
        file["Content-Disposition"] = f'attachment; filename="audit-log.{kind}"'
        return file

    @method_decorator(require_POST)
    def undo(self, request: HttpRequest, pk: int) -> HttpResponse:
        entry = self.get_object(request, str(pk))
        if entry is None:
            raise Http404
        if not may_undo(request, entry):
            raise PermissionDenied
        try:
            undone = undo(entry, actor_of(request))
        except CannotUndo as error:
            messages.error(request, f"Not undone: {error}")
            return redirect(address("queuemgr_auditentry_change", pk))
        if undone.action_id:
            messages.info(request, f"Being undone in the background by {undone.target}.")
        else:
            messages.info(request, f"Undone: {undone.target} is {in_words(undone.after)} again.")
        return redirect(address("queuemgr_auditentry_change", undone.pk))

    @admin.display(description="in full")
    def in_full(self, entry: AuditEntry) -> str:
        values = as_json({"before": entry.before, "after": entry.after})
        template = '<pre class="sg-quiet" style="white-space: pre-wrap; overflow-wrap: anywhere">{}</pre>'
        return format_html(template, values)


def may_undo(request: HttpRequest, entry: AuditEntry) -> bool:
    """Does the user have `undo_auditentry` and the permissions of the change itself?"""
    try:
        needed = ("queuemgr.undo_auditentry", *permissions(entry))
    except CannotUndo:
        return False
    return bool(request.user.has_perms(needed))


def _undo_offer(request: HttpRequest, entry: AuditEntry) -> dict[str, str]:
    """What an undo would restore, or why it is refused; empty for users who may not undo the change."""
    if not may_undo(request, entry):
        return {}
    try:
        check(entry)
    except CannotUndo as error:
        return {"refused": str(error)}
    before = in_words(entry.before) or "the values before, in the background"
    return {"restores": f"{entry.target}: {before}"}


def _undone(entry: AuditEntry, by: AuditEntry | None) -> str:
    """Links to the entry that undid this one, and to the one that this one undid."""
    others = [(by.pk, f"by {by.actor}")] if by else []
    others += [(entry.undoes_id, f"undoes {entry.undoes_id}")] if entry.undoes_id else []
    page = "queuemgr_auditentry_change"
    return format_html_join(" ", "{}", ((link(address(page, pk), words),) for pk, words in others))
