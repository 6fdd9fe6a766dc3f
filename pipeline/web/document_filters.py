"""Filters of the documents page; none reads the table to learn its choices."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest


class ChosenFilter(admin.SimpleListFilter):
    """Choices written down, each with the condition it stands for."""

    choices_by_word: ClassVar[dict[str, Q]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(word, word) for word in self.choices_by_word]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.choices_by_word.get(str(self.value()))
        return queryset if chosen is None else queryset.filter(chosen)


class KindFilter(ChosenFilter):
    title = "kind"
    parameter_name = "kind"
    choices_by_word = {kind: Q(kind=kind) for kind in ("arxiv", "doi", "url", "file")}


class WholeFilter(ChosenFilter):
    title = "how much was read"
    parameter_name = "read"
    choices_by_word = {
        "all of it": Q(problem="", pages__isnull=False),
        "partial": ~Q(problem=""),
        "not yet": Q(problem="", pages__isnull=True),
    }


class OpenAccessFilter(ChosenFilter):
    title = "open access"
    parameter_name = "open_access"
    choices_by_word = {
        **{name: Q(open_access=name) for name in ("diamond", "gold", "hybrid", "green", "bronze")},
        "closed": Q(open_access="closed"),
        "unknown": Q(open_access=""),
    }


class MethodFilter(ChosenFilter):
    title = "analysed"
    parameter_name = "analysed"
    choices_by_word = {
        "by a model": Q(method__startswith="model:"),
        "without a model": Q(method="extractive"),
        "not yet": Q(method=""),
    }
