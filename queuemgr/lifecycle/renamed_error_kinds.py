"""Renames error kinds in what is stored, for an application that calls them otherwise from a release on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import zip_longest
from typing import Any

from django.db import migrations
from django.db.models import Exists, OuterRef

from queuemgr.base import queue_database
from queuemgr.base.errors import ConfigurationError
from queuemgr.lifecycle.error_fingerprint import fingerprint

ROWS = 1_000
"""Executions renamed, and rows of statistics added up, at a time."""


class RenameErrorKinds(migrations.RunPython):
    """`RenameErrorKinds({"old": "new"})`: of executions, attempts, statistics and retry policies, with an
    undo. Its migration depends on `("queuemgr", "0001_first_release")`."""

    def __init__(self, names: Mapping[str, str]) -> None:
        if both := sorted(set(names) & set(names.values())):
            raise ConfigurationError(f"old and new name at once: {', '.join(both)}; rename in two migrations")
        back = {new: old for old, new in names.items()}
        super().__init__(partial(rename, names=dict(names)), partial(rename, names=back))
        self._names = dict(names)

    def deconstruct(self) -> Any:
        return type(self).__name__, [self._names], {}


def rename(apps: Any, schema_editor: Any, names: Mapping[str, str]) -> None:
    """The audit log keeps what was said then."""
    if schema_editor.connection.alias != queue_database.alias():
        return  # the queue's tables are in another database
    for before, after in names.items():
        _rename_executions(apps.get_model("queuemgr", "Execution").objects, before, after)
        _fold_statistics(apps.get_model("queuemgr", "MinuteStats").objects, before, after)
        for model in ("Attempt", "MinuteStats"):
            rows = apps.get_model("queuemgr", model).objects
            rows.filter(error_kind=before).update(error_kind=after)
        policies = apps.get_model("queuemgr", "RetryPolicy").objects
        policies.filter(kind=after, phase__in=policies.filter(kind=before).values("phase")).delete()
        policies.filter(kind=before).update(kind=after)


def _fold_statistics(rows: Any, before: str, after: str) -> None:
    """Add those that have a row of the new name to it: a minute has one for each kind."""
    same = {name: OuterRef(name) for name in ("minute", "phase", "priority", "outcome")}
    both = rows.filter(Exists(rows.filter(error_kind=after, **same)), error_kind=before)
    while some := list(both[:ROWS]):
        for row in some:
            total = rows.get(error_kind=after, **{name: getattr(row, name) for name in same})
            total.attempts += row.attempts
            total.cost += row.cost
            used = [amounts or {} for amounts in (total.used, row.used)]
            total.used = {key: sum(each.get(key, 0) for each in used) for key in {**used[0], **used[1]}}
            for name in ("waited", "ran"):
                counts = zip_longest(getattr(total, name), getattr(row, name), fillvalue=0)
                setattr(total, name, [sum(pair) for pair in counts])
            total.save()
        rows.filter(pk__in=[row.pk for row in some]).delete()


def _rename_executions(rows: Any, before: str, after: str) -> None:
    """With the fingerprint that groups failures of one cause."""
    while some := list(rows.filter(error_kind=before).only("step", "error_message")[:ROWS]):
        for row in some:
            row.error_kind = after
            row.error_fingerprint = fingerprint(after, row.step, row.error_message)
        rows.bulk_update(some, ["error_kind", "error_fingerprint"])
