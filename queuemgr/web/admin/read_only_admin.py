"""Base classes of the admin pages: no adding, deleting or editing, bounded counts, rows read in bulk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import lookup_field, unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.functional import cached_property
from django.utils.html import format_html

from queuemgr.base.errors import SluiceError
from queuemgr.base.redaction import clean
from queuemgr.operations import user_model
from queuemgr.operations.controls import Actor
from queuemgr.web import page_views
from queuemgr.web.admin import live_list
from queuemgr.web.admin.saved_views import views_of
from queuemgr.web.admin_classes import ModelAdmin, TextInput
from queuemgr.web.links import address, current_site
from queuemgr.web.look import has_theme

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[Any]
    _Paginator = Paginator[Any]
else:
    _ModelForm = forms.ModelForm
    _Paginator = Paginator

MAX_COUNT = 10_000
ACTION_COLUMN = "action_checkbox"


class AtLeast(int):
    """A lower bound of a count: `10,000+`."""

    def __str__(self) -> str:
        return f"{int(self):,}+"


class BoundedPaginator(_Paginator):
    """Counts and pages up to `MAX_COUNT` rows; rows beyond are found by filter and search."""

    def __init__(self, *args: Any, counted: int | None = None) -> None:
        """`counted`: the number of rows, at least up to the bound, if it is known."""
        super().__init__(*args)
        self._counted = counted

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        known = self._counted
        count = int(rows.order_by()[: MAX_COUNT + 1].count()) if known is None else known
        return AtLeast(MAX_COUNT) if count > MAX_COUNT else count


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

    def shown(self) -> Iterator[str]:
        """All that the list shows, as texts: it has changed if one of them has."""
        yield str(self.result_count)
        for row in self.result_list:
            yield str(row.pk)
            for column in self.list_display:
                if column != ACTION_COLUMN:
                    yield str(lookup_field(column, row, self.model_admin)[2])


class ExtraPage(NamedTuple):
    """A further page of a model: the last part of its URL, its view, and its name in URLs."""

    route: str
    view: Callable[..., Any]
    name: str


class BaseAdmin(ModelAdmin):
    """No adding or deleting; the `change` permission allows the list's actions."""

    class Media:
        css = {"all": ("queuemgr/lists.css",)}

    is_plain = not has_theme()
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 200
    list_fullwidth = True

    deferred: Sequence[str] = ()
    """Columns that lists do not read, because they are large."""

    titles: Mapping[str, str] = {}
    """The titles of columns that show an attribute which `read_page` sets on each row."""

    has_history = False
    """Whether the audit log has entries about such rows."""

    reads_detail = False
    """Whether a row's own page needs `read_page` too."""

    may_add = False

    has_saved_views = True

    is_live = False
    """Whether the list refreshes where it is read."""

    list_tools_template = ""
    """The template of links that lead from the list to other pages of ours."""

    own_page = ""
    """The template of a row's own page, in place of Django's form."""

    def __init_subclass__(cls) -> None:
        for name, title in cls.__dict__.get("titles", {}).items():
            setattr(cls, name, _column(name, title))

    def read_page(self, rows: Sequence[Any]) -> None:
        """Set attributes on the rows of a page, for the columns in `titles`."""

    def pages(self) -> Iterable[ExtraPage]:
        """Further pages of this model."""
        return ()

    def get_urls(self) -> list[URLPattern]:
        more = [
            path(page.route, self.admin_site.admin_view(page.view), name=page.name) for page in self.pages()
        ]
        urls = [*more, *super().get_urls()]
        for url in urls:
            url.callback = page_views.around(url.callback, self.admin_site)
        return urls

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        row = super().get_object(request, *args, **kwargs)
        if row is not None and self.reads_detail:
            self.read_page([row])
        return row

    def own_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """What the template in `own_page` shows, with its `title`."""
        raise NotImplementedError

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        if not self.own_page:
            return super().change_view(request, object_id, form_url, extra_context)
        row = self.get_object(request, unquote(object_id))
        if row is None:
            return self.missing(request, object_id)
        if not self.has_view_permission(request, row) or request.method not in ("GET", "HEAD"):
            raise PermissionDenied
        return render_page(request, self.own_page, opts=self.opts, **self.own_context(request, row))

    def missing(self, request: HttpRequest, pk: Any) -> HttpResponse:
        messages.warning(request, f"There is no {self.opts.verbose_name} {pk}.")
        return redirect(address(f"{self.opts.app_label}_{self.opts.model_name}_changelist"))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        title = str(self.opts.verbose_name_plural).capitalize()
        views = partial(views_of, request, self.opts.label_lower) if self.has_saved_views else None
        context = {"title": title, "saved_views": views, **(extra_context or {})}
        response = super().changelist_view(request, context)
        return live_list.answer(request, response) if self.is_live else response

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return BulkReadList

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Between the form's validation and its saving a row may change, and what a row is about may be gone
        from the code: then saving fails."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except (ValidationError, SluiceError) as error:
            problem = " ".join(error.messages) if isinstance(error, ValidationError) else str(error)
            self.message_user(request, f"Not saved: {problem}", messages.ERROR)
            return redirect(request.get_full_path())

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.may_add and super().has_add_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """The audit log, which also has changes by commands and the API."""
        row = self.get_object(request, unquote(object_id))
        if row is None or not self.has_view_or_change_permission(request, row):
            raise PermissionDenied
        return redirect(address("queuemgr_auditentry_changelist", target=str(row)))


class ReadOnlyAdmin(BaseAdmin):
    """Rows cannot be edited; the `change` permission still allows the list's actions."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request)


class ReasonForm(_ModelForm):
    """A form with a reason, for rows whose edits are recorded in the audit log."""

    reason = forms.CharField(
        max_length=200, required=False, widget=TextInput, help_text="Recorded in the audit log."
    )

    def full_clean(self) -> None:
        """A refused form leaves its row as it was: the page that says why shows the row's status, too."""
        columns = [column.attname for column in self.instance._meta.concrete_fields]
        before = {name: getattr(self.instance, name) for name in columns}
        super().full_clean()
        if self.errors:
            for name, value in before.items():
                setattr(self.instance, name, value)

    def changed_values(self, *names: str) -> dict[str, Any]:
        """The fields among `names` that were changed; for a new row all that the form has."""
        new, values = self.instance.pk is None, self.cleaned_data
        return {n: values[n] for n in names if n in values and (new or n in self.changed_data)}


def actor_of(request: HttpRequest) -> Actor:
    """The user of this request, for the audit log, with the reason that its form has."""
    user, reason = request.user, clean(request.POST.get("reason", "").strip())[:200]
    return Actor(user_model.name_of(user), "admin", reason, user_id=user.pk)


def render_page(request: HttpRequest, template: str, **context: Any) -> TemplateResponse:
    """A page of ours in the frame of the admin; the context has its `title`. Those of its forms that are
    called `…_form` may have fields of the same name, which must not have the same id."""
    context = {**current_site().each_context(request), **context}
    for name, form in context.items():
        if name.endswith("_form"):
            form.auto_id = f"id_{name}_%s"
    return TemplateResponse(request, f"admin/queuemgr/{template}.html", context)


def _column(name: str, title: str) -> Any:
    @admin.display(description=title, empty_value="")
    def show(self: Any, row: Any) -> Any:
        return getattr(row, name)

    return show


def progress_bar(percent: int, text: str) -> str:
    return format_html(
        '<span class="sg-bar" role="img" aria-label="{0} percent" style="min-width: 5rem">'
        '<span style="width: {0}%"></span></span>{1}',
        percent, text,
    )  # fmt: skip
