"""The audit log of bulk actions: an entry when one starts, stops and ends, and one for each chunk.

The entry of a chunk holds the ids of its executions by what they were before and after, so it is as exact
as an entry for each: a million executions make some thousand entries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from queuemgr.models import BulkAction, Execution
from queuemgr.operations.controls import Actor, Describe
from queuemgr.steptools.number_ranges import ranges

START = "start bulk action"
"""The audit action of a start; undoing that entry undoes the bulk action."""


ITSELF = Actor("queue", "system")
"""Who stops an action whose starter may not continue."""


def starter_of(action: BulkAction) -> Actor:
    """The person in whose name it runs, for its audit entries and for their rights."""
    account = action.account or action.user_id  # an earlier release stored numbers alone
    return Actor(action.actor, action.source, action.reason, user_id=account, token_id=action.token_id)


@dataclass(frozen=True)
class ByAction(Actor):
    """The person behind a bulk action, whose changes are collected into one entry for the chunk."""

    before: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    after: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def record_each(
        self, action: str, executions: Iterable[Execution], before: Describe, after: Describe
    ) -> None:
        for execution in executions:
            for ids, values in ((self.before, before(execution)), (self.after, after(execution))):
                words = ", ".join(f"{name} {value}" for name, value in values.items())
                ids[words].append(execution.pk)


def record_chunk(action: BulkAction, by: ByAction, changed: int) -> None:
    """Record what one chunk changed; nothing when it changed nothing."""
    before, after = ({words: ranges(ids) for words, ids in some.items()} for some in (by.before, by.after))
    if changed:
        target = f"{changed} executions of {action}"
        by.record(f"bulk {action.verb_in_words}", target, before, after, changed, action.pk)


def record_start(action: BulkAction, by: Actor) -> None:
    """Record the start: what it does, with which executions, at what rate."""
    filters = {name: ranges(v) if name == "ids" else v for name, v in action.filters.items()}
    after = {**filters, **action.arguments, "per_minute": action.per_minute}
    by.record(START, str(action), {}, after, action.matched, action.pk)


def record_end(action: BulkAction, by: Actor, what: str) -> None:
    """Record a stop or the end: what it changed in all."""
    counts = {name: getattr(action, name) for name in ("changed", "skipped", "failed")}
    by.record(what, str(action), {"matched": action.matched}, counts, action.changed, action.pk)
