"""Filters of the documents page, with fixed choices that need no query."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest


class FixedChoiceFilter(admin.SimpleListFilter):
    """Fixed choices, each with its condition."""

    conditions: ClassVar[dict[str, Q]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(word, word) for word in self.conditions]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.conditions.get(str(self.value()))
        return queryset if chosen is None else queryset.filter(chosen)


class KindFilter(FixedChoiceFilter):
    title = "kind"
    parameter_name = "kind"
    conditions = {kind: Q(kind=kind) for kind in ("arxiv", "doi", "url", "file")}


class CompletenessFilter(FixedChoiceFilter):
    title = "completeness"
    parameter_name = "read"
    conditions = {
        "complete": Q(problem="", pages__isnull=False),
        "partial": ~Q(problem=""),
        "not yet": Q(problem="", pages__isnull=True),
    }


class OpenAccessFilter(FixedChoiceFilter):
    title = "open access"
    parameter_name = "open_access"
    conditions = {
        **{name: Q(open_access=name) for name in ("diamond", "gold", "hybrid", "green", "bronze")},
        "closed": Q(open_access="closed"),
        "unknown": Q(open_access=""),
    }


class MethodFilter(FixedChoiceFilter):
    title = "analysed"
    parameter_name = "analysed"
    conditions = {
        "by a model": Q(method__startswith="model:"),
        "without a model": Q(method="extractive"),
        "not yet": Q(method=""),
    }
