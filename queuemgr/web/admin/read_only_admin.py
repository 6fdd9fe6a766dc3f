"""The base of every page: nothing is added, deleted or edited, and counting has an end."""

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
from django.utils.http import urlencode

from queuemgr.base.redaction import clean
from queuemgr.operations.controls import Actor
from queuemgr.web.admin.bounded_count import BoundedPaginator

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    from unfold.admin import ModelAdmin as _ModelAdmin


class Page(ChangeList):
    """A list whose admin reads what it says of the page's rows all at once, in `read_page`."""

    model_admin: KeptAdmin

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        return super().get_queryset(request, exclude_parameters).defer(*self.model_admin.unlisted)

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        self.model_admin.read_page(rows)
        self.result_list = rows


class KeptAdmin(_ModelAdmin):
    """Rows that stay: `change` permission gives their actions, never a way to add or delete."""

    class Media:
        css = {"all": ("queuemgr/lists.css",)}

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 200
    list_fullwidth = True

    unlisted: Sequence[str] = ()
    """Columns too large to read for a list."""

    recorded = False
    """Whether people change such rows, so that there is a history to show."""

    def read_page(self, rows: Sequence[Any]) -> None:
        """Put on the rows of one page what the list says of them beyond their columns."""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        title = str(self.opts.verbose_name_plural).capitalize()
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return Page

    def changeform_view(self, request: HttpRequest, *given: Any, **named: Any) -> HttpResponse:
        """What was right when the form was checked can be wrong when it is saved: a row may change in
        between, and the verb then refuses."""
        try:
            return super().changeform_view(request, *given, **named)
        except ValidationError as error:
            self.message_user(request, f"Not saved: {' '.join(error.messages)}", messages.ERROR)
            return redirect(request.get_full_path())

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        """The record of changes, which knows of commands and the API as well."""
        row = self.get_object(request, unquote(object_id))
        if row is None or not self.has_view_or_change_permission(request, row):
            raise PermissionDenied
        changes = reverse(f"{self.admin_site.name}:queuemgr_auditentry_changelist")
        return redirect(f"{changes}?{urlencode({'target': str(row)})}")


class ReadOnlyAdmin(KeptAdmin):
    """A row's own page is only ever read; `change` permission still gives the list's actions."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request)


def actor_of(request: HttpRequest, reason: str = "") -> Actor:
    """The person of this request, as the record of changes names them."""
    return Actor(request.user.get_username(), "admin", clean(reason)[:200])
