"""Filters of the documents page, with fixed choices that need no query."""

from __future__ import annotations

from django.db.models import Q

from queuemgr.extend.admin import ChoiceFilter


class KindFilter(ChoiceFilter):
    title = "kind"
    parameter_name = "kind"
    conditions = {kind: Q(kind=kind) for kind in ("arxiv", "doi", "url", "file")}


class CompletenessFilter(ChoiceFilter):
    title = "completeness"
    parameter_name = "read"
    conditions = {
        "complete": Q(problem="", pages__isnull=False),
        "partial": ~Q(problem=""),
        "not yet": Q(problem="", pages__isnull=True),
    }


class OpenAccessFilter(ChoiceFilter):
    title = "open access"
    parameter_name = "open_access"
    conditions = {
        **{name: Q(open_access=name) for name in ("diamond", "gold", "hybrid", "green", "bronze")},
        "closed": Q(open_access="closed"),
        "unknown": Q(open_access=""),
    }


class MethodFilter(ChoiceFilter):
    title = "analysed"
    parameter_name = "analysed"
    conditions = {
        "by a model": Q(method__startswith="model:"),
        "without a model": Q(method="extractive"),
        "not yet": Q(method=""),
    }
