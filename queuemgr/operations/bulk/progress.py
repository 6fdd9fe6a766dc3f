"""Progress and results of a bulk action, as numbers and in words. Pure but for its row."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from queuemgr.models import ActionState, BulkAction
from queuemgr.reporting.estimate_ranges import with_ranges


@dataclass(frozen=True)
class BulkProgress:
    """`percent`: of the rows matched at the start, 0 to 100; `left`: rows still to do; `ends_at`: the ETA,
    None when it is not known yet, or it has ended."""

    percent: int
    left: int
    ends_at: datetime | None


def progress(action: BulkAction, now: datetime) -> BulkProgress:
    """The ETA is by its rate where it has one, else at the speed so far."""
    if action.state == ActionState.DONE:
        return BulkProgress(100, 0, None)
    passed = min(action.passed, action.matched)
    left = action.matched - passed
    percent = min(99, 100 * passed // action.matched) if action.matched else 0
    ends_at = None
    if action.state == ActionState.RUNNING and action.per_minute:
        ends_at = now + timedelta(minutes=left / action.per_minute)
    elif action.state == ActionState.RUNNING and passed and action.started_at:
        ends_at = now + (now - action.started_at) * left / passed
    return BulkProgress(percent, left, ends_at)


def filter_in_words(action: BulkAction) -> str:
    """`state failed, error_kind network`; ids as their number."""
    if "undoes" in action.arguments:
        return f"all that bulk action #{action.arguments['undoes']} changed"
    said = (
        f"{len(value):,} chosen by id" if name == "ids" else f"{name} {value}"
        for name, value in action.filters.items()
    )
    return ", ".join(said) or "every execution"


def what_in_words(action: BulkAction) -> str:
    """`priority high`, `retry`."""
    return " ".join([action.verb_in_words, *map(str, action.arguments.values())])


def result_in_words(action: BulkAction) -> str:
    """`9,990 changed, 8 left alone, 2 failed`."""
    return (
        f"{action.changed:,} changed, {action.skipped:,} left alone because changed since, "
        f"{action.failed:,} failed"
    )


_FIELDS = (
    "verb", "arguments", "filters", "state", "actor", "previewed_by", "source", "reason", "per_minute",
    "matched", "changed", "skipped", "failed", "problem", "created_at", "started_at", "finished_at",
    "stopped_by",
)  # fmt: skip


def serialize(action: BulkAction, now: datetime) -> dict[str, Any]:
    """The action as plain data with stable names."""
    fields = {name: getattr(action, name) for name in _FIELDS}
    ahead = with_ranges(asdict(progress(action, now)), now, ends_at="end")
    return {"id": action.pk, **fields, **ahead}
