"""Base classes of the admin pages: no adding, deleting or editing, bounded counts, rows read in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode

from queuemgr.base.redaction import clean
from queuemgr.operations.controls import Actor
from queuemgr.web.admin.bounded_count import BoundedPaginator

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    from unfold.admin import ModelAdmin as _ModelAdmin


class BulkReadList(ChangeList):
    """A list whose admin reads further data of a page's rows at once, in `read_page`."""

    model_admin: BaseAdmin

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        return super().get_queryset(request, exclude_parameters).defer(*self.model_admin.deferred)

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        self.model_admin.read_page(rows)
        self.result_list = rows


class BaseAdmin(_ModelAdmin):
    """No adding or deleting; the `change` permission allows the list's actions."""

    class Media:
        css = {"all": ("queuemgr/lists.css",)}

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 200
    list_fullwidth = True

    deferred: Sequence[str] = ()
    """Columns that lists do not read, because they are large."""

    has_history = False
    """Whether the audit log has entries about such rows."""

    reads_detail = False
    """Whether a row's own page needs `read_page` too."""

    def read_page(self, rows: Sequence[Any]) -> None:
        """Set attributes on the rows of a page, for columns made by `column`."""

    def get_object(self, request: HttpRequest, *given: Any, **named: Any) -> Any:
        row = super().get_object(request, *given, **named)
        if row is not None and self.reads_detail:
            self.read_page([row])
        return row

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        title = str(self.opts.verbose_name_plural).capitalize()
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return BulkReadList

    def changeform_view(self, request: HttpRequest, *given: Any, **named: Any) -> HttpResponse:
        """A row may change between the form's validation and its saving, which then fails."""
        try:
            return super().changeform_view(request, *given, **named)
        except ValidationError as error:
            self.message_user(request, f"Not saved: {' '.join(error.messages)}", messages.ERROR)
            return redirect(request.get_full_path())

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """The audit log, which also has changes by commands and the API."""
        row = self.get_object(request, unquote(object_id))
        if row is None or not self.has_view_or_change_permission(request, row):
            raise PermissionDenied
        changes = reverse(f"{self.admin_site.name}:queuemgr_auditentry_changelist")
        return redirect(f"{changes}?{urlencode({'target': str(row)})}")


class ReadOnlyAdmin(BaseAdmin):
    """Rows cannot be edited; the `change` permission still allows the list's actions."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request)


def actor_of(request: HttpRequest, reason: str = "") -> Actor:
    """The user of this request, for the audit log."""
    return Actor(request.user.get_username(), "admin", clean(reason)[:200])


def column(name: str, title: str = "") -> Any:
    """A list column of an attribute that `read_page` sets on each row."""

    @admin.display(description=title or name.replace("_", " "), empty_value="")
    def show(self: Any, row: Any) -> Any:
        return getattr(row, name)

    return show


def progress_bar(percent: int, text: str) -> str:
    return format_html(
        '<span class="sg-bar" role="img" aria-label="{0} percent" style="min-width: 5rem">'
        '<span style="width: {0}%"></span></span>{1}',
        percent, text,
    )  # fmt: skip
