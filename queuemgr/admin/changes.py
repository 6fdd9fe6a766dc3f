"""Changes: the record of what people did, through whatever they did it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin

from queuemgr.admin.filters import ChangedFilter, recent_values
from queuemgr.admin.read_only import ReadOnlyAdmin
from queuemgr.models import Change


@admin.register(Change)
class ChangeAdmin(ReadOnlyAdmin):
    list_display = ("at", "actor", "source", "action", "target", "was", "became", "reason")
    list_filter = (
        recent_values("actor"), recent_values("action"), recent_values("source"), ChangedFilter,
    )  # fmt: skip
    search_fields = ("target__startswith",)
    search_help_text = "The beginning of what was changed: a queue, a limit, or flow/key."
    sortable_by = ()

    @admin.display(description="before", empty_value="")
    def was(self, change: Change) -> str:
        return _in_words(change.before)

    @admin.display(description="after", empty_value="")
    def became(self, change: Change) -> str:
        return _in_words(change.after)


def _in_words(values: dict[str, Any]) -> str:
    """`max_running 3, daily_budget none`; a lone state or pause needs no name."""
    words = {name: "none" if value is None else str(value) for name, value in values.items()}
    if len(words) == 1 and {*words} <= {"is", "state", "priority"}:
        return next(iter(words.values()))
    return ", ".join(f"{name} {value}" for name, value in words.items())
