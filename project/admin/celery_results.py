"""The results of Celery tasks, of periodic jobs among others; read-only.

Arguments and return values are shown as text, with secrets masked.
"""

from __future__ import annotations

from typing import Any

import django_celery_results.admin  # noqa: F401  registers its classes, which ours replace
from django.contrib import admin
from django_celery_results.models import GroupResult, TaskResult

from queuemgr.base.redaction import clean
from queuemgr.web.admin.filters import AgeFilter, recent_values
from queuemgr.web.admin.read_only_admin import ReadOnlyAdmin

for model in (TaskResult, GroupResult):
    admin.site.unregister(model)


class DoneFilter(AgeFilter):
    title = "done"
    column = "date_done"


def _cleaned(column: str, words: str) -> Any:
    @admin.display(description=words)
    def shown(admin: ReadOnlyAdmin, row: Any) -> str:
        return clean(str(getattr(row, column) or "")) or "-"

    return shown


class KeptResultAdmin(ReadOnlyAdmin):
    """Read-only; the result backend deletes results when they expire."""

    sortable_by = ()
    ordering = ("-date_done",)

    shown_result = _cleaned("result", "result")

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False


@admin.register(TaskResult)
class TaskResultAdmin(KeptResultAdmin):
    list_display = ("task_id", "task_name", "status", "worker", "date_done")
    list_filter = (
        recent_values("status"), recent_values("task_name"), recent_values("worker"), DoneFilter,
    )  # fmt: skip
    search_fields = ("task_id__startswith",)
    search_help_text = "A prefix of a task's id."
    deferred = ("task_args", "task_kwargs", "result", "traceback", "meta")
    fields = (
        "task_id", "task_name", "periodic_task_name", "status", "worker", "shown_args", "shown_kwargs",
        "shown_result", "shown_traceback", "date_created", "date_started", "date_done",
    )  # fmt: skip
    readonly_fields = ("shown_args", "shown_kwargs", "shown_result", "shown_traceback")

    shown_args = _cleaned("task_args", "arguments")
    shown_kwargs = _cleaned("task_kwargs", "named arguments")
    shown_traceback = _cleaned("traceback", "traceback")


@admin.register(GroupResult)
class GroupResultAdmin(KeptResultAdmin):
    list_display = ("group_id", "date_done")
    list_filter = (DoneFilter,)
    search_fields = ("group_id__startswith",)
    search_help_text = "A prefix of a group's id."
    deferred = ("result",)
    fields = ("group_id", "shown_result", "date_created", "date_done")
    readonly_fields = ("shown_result",)
