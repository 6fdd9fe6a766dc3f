"""An admin site whose lists answer only what their pages offer.

Django lets whoever may see a list filter it by any look-up of any of its columns: who may not see a payload
could read it letter by letter from the number of rows found, and a regular expression could stop the
database. Here a list takes the parameters of its own filters, and the order of its sortable columns, and
nothing else. So it is for our own pages on any site. `guard(site)` does it for every model that is
registered, Django's own and those of applications as well: that is for a project to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

if TYPE_CHECKING:
    _Site = AdminSite
    _Page = ModelAdmin[Any]
    _List = ChangeList
else:
    _Site = _Page = _List = object


def guard(site: AdminSite) -> None:
    """Guard every page of this site: those registered, and those that will be."""
    if not isinstance(site, GuardedSite):
        site.__class__ = type("GuardedSite", (GuardedSite, type(site)), {})
        for page in site._registry.values():
            page.__class__ = guarded_page(type(page))


class GuardedSite(_Site):
    """To be listed before the class of a site."""

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        super().register(model_or_iterable, guarded_page(admin_class or ModelAdmin), **options)

    def autocomplete_view(self, request: HttpRequest) -> HttpResponse:
        """Only for the fields that some page completes; Django answers for any foreign key."""
        asked = tuple(request.GET.get(name, "") for name in ("app_label", "model_name", "field_name"))
        if asked not in self._completed_fields():
            raise PermissionDenied
        return super().autocomplete_view(request)

    def _completed_fields(self) -> Iterator[tuple[str, ...]]:
        pages: Iterable[Any] = self._registry.values()
        for part in chain(pages, *(page.inlines for page in pages)):
            opts = part.model._meta
            yield from ((opts.app_label, opts.model_name, field) for field in part.autocomplete_fields)


class GuardedPage(_Page):
    """To be listed before the class of a page."""

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        kind: Any = super().get_changelist(request, **kwargs)
        guarded: type[ChangeList] = _guarded_list(kind)
        return guarded

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> Any:
        """Django completes any foreign key to our rows for whoever may see them, on any page."""
        if _completes(request) and not isinstance(self.admin_site, GuardedSite):
            raise PermissionDenied
        return super().get_search_results(request, queryset, search_term)

    def to_field_allowed(self, request: HttpRequest, to_field: str) -> bool:
        """A row is found by its primary key only."""
        return to_field == self.opts.pk.name


def _completes(request: HttpRequest) -> bool:
    match = request.resolver_match
    return match is not None and match.url_name == "autocomplete"


class GuardedList(_List):
    """To be listed before the class of a list."""

    def get_filters(self, request: HttpRequest) -> Any:
        """Raises `DisallowedModelAdminLookup` for parameters that none of the page's filters has taken."""
        found = super().get_filters(request)
        bounds = {f"{self.date_hierarchy}__{end}" for end in ("gte", "lt")} if self.date_hierarchy else set()
        if refused := sorted(set(found[2]) - bounds):
            raise DisallowedModelAdminLookup(f"this list has no filter {refused[0][:100]!a}")
        return found

    def get_ordering(self, request: HttpRequest, queryset: Any) -> Any:
        """By sortable columns only: any other order would tell, or sort, what the page does not offer."""
        if asked := self.params.get(ORDER_VAR):
            self.params[ORDER_VAR] = ".".join(filter(self._is_sortable, asked.split(".")))
        return super().get_ordering(request, queryset)

    def _is_sortable(self, column: str) -> bool:
        number = column.removeprefix("-")
        columns = self.list_display
        is_one = number.isascii() and number.isdecimal() and len(number) < 4 and int(number) < len(columns)
        return is_one and columns[int(number)] in (self.sortable_by or ())


@cache
def guarded_page(page: Any) -> Any:
    """This class of a page, guarded."""
    if issubclass(page, GuardedPage):
        return page
    return type(page.__name__, (GuardedPage, page), {"__module__": page.__module__})


@cache
def _guarded_list(kind: Any) -> Any:
    return type(kind.__name__, (GuardedList, kind), {"__module__": kind.__module__})
