"""The audit log of bulk actions: an entry when one starts, stops and ends, and one for each batch.

The entry of a batch holds the ids of its executions by what they were before and after, so it is as exact
as an entry for each: a million executions make some thousand entries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from queuemgr.base.id_ranges import ranges
from queuemgr.base.redaction import clean
from queuemgr.models import AuditEntry, BulkAction, Execution
from queuemgr.operations.controls import Actor, Describe

START = "start bulk action"
"""The audit action of a start; undoing that entry undoes the bulk action."""


@dataclass(frozen=True)
class ByAction(Actor):
    """The person behind a bulk action, whose changes are collected into one entry for the batch."""

    before: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    after: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def record_each(
        self, action: str, executions: Iterable[Execution], before: Describe, after: Describe
    ) -> None:
        for execution in executions:
            self.before[_in_words(before(execution))].append(execution.pk)
            self.after[_in_words(after(execution))].append(execution.pk)


def _in_words(values: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def record_batch(action: BulkAction, by: ByAction, changed: int) -> None:
    """Record what one batch changed; nothing when it changed nothing."""
    if not changed:
        return
    _write(
        by, f"bulk {action.verb}", f"{changed} executions of {action}", changed, action,
        {words: ranges(ids) for words, ids in by.before.items()},
        {words: ranges(ids) for words, ids in by.after.items()},
    )  # fmt: skip


def record_start(action: BulkAction, by: Actor) -> None:
    """Record the start: what it does, with which executions, at what rate."""
    after = {
        **{name: value for name, value in action.filters.items() if name != "ids"},
        **({"ids": ranges(action.filters["ids"])} if "ids" in action.filters else {}),
        **action.arguments,
        "per_minute": action.per_minute,
    }
    _write(by, START, str(action), action.matched, action, {}, after)


def record_end(action: BulkAction, by: Actor, what: str) -> None:
    """Record a stop or the end: what it changed in all."""
    counts = {name: getattr(action, name) for name in ("changed", "skipped", "failed")}
    _write(by, what, str(action), action.changed, action, {"matched": action.matched}, counts)


def _write(
    by: Actor, what: str, target: str, affected: int, action: BulkAction,
    before: dict[str, Any], after: dict[str, Any],
) -> None:  # fmt: skip
    AuditEntry.objects.create(
        actor=by.actor, source=by.source, reason=clean(by.reason)[:200], action=what, target=target,
        before=before, after=after, affected=affected, action_id=action.pk,
        undoes_id=by.undoes,
    )  # fmt: skip
