"""The history of one execution in order: attempts, the waits between them and why, and what people did.

Made of rows already read; this module queries nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from queuemgr.models import Attempt, AuditEntry, Outcome

MIN_WAIT = timedelta(seconds=1)
"""Shorter waits are left out."""

_LEVELS: Mapping[str, str] = {
    Outcome.DONE: "good",
    Outcome.RETRIED: "warn",
    Outcome.LOST: "bad",
    Outcome.FAILED: "bad",
}

_WAIT_REASONS: Mapping[str, str] = {
    Outcome.RETRIED: "waited before the retry",
    Outcome.SNOOZED: "snoozed by the step",
    Outcome.LOST: "waited after its worker was lost",
}


@dataclass(frozen=True, slots=True)
class BulkChange:
    """What a bulk action (`action`) did to it; `became`: the values it then had, in words."""

    at: datetime
    what: str
    action: int
    actor: str
    became: str
    reason: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One line. `kind` is attempt, wait, change or enqueued; `level` good, warn, bad or empty; `lasted` None
    for an instant; `bulk_action` the one that made the change."""

    at: datetime
    kind: str
    what: str
    detail: str = ""
    level: str = ""
    lasted: timedelta | None = None
    where: str = ""
    attempt: int | None = None
    bulk_action: int | None = None


def timeline(
    attempts: Sequence[Attempt],
    changes: Iterable[AuditEntry],
    enqueued: datetime | None,
    bulk_changes: Iterable[BulkChange] = (),
) -> list[Entry]:
    """The entries, oldest first; `attempts` in their order, `enqueued` None when older attempts were left
    out."""
    entries = [Entry(enqueued, "enqueued", "enqueued")] if enqueued else []
    before: Attempt | None = None
    for attempt in attempts:
        entries += _waits(before, attempt)
        entries.append(_attempt(attempt))
        before = attempt
    entries += map(_audit_entry, changes)
    entries += map(_bulk_change, bulk_changes)
    return sorted(entries, key=lambda entry: entry.at)


def _waits(before: Attempt | None, attempt: Attempt) -> Iterator[Entry]:
    """The waits until it was due, until it was leased, and until a worker started it."""
    due = attempt.due_at or attempt.leased_at
    if before is not None and due - before.ended_at >= MIN_WAIT:
        why = _WAIT_REASONS.get(before.outcome, "waited")
        yield Entry(before.ended_at, "wait", why, before.error_message, lasted=due - before.ended_at)
    if attempt.leased_at - due >= MIN_WAIT:
        under = f"for {attempt.limit_keys}" if attempt.limit_keys else ""
        yield Entry(due, "wait", "waited for limits and slots", under, lasted=attempt.leased_at - due)
    if attempt.started_at - attempt.leased_at >= MIN_WAIT:
        lasted = attempt.started_at - attempt.leased_at
        yield Entry(attempt.leased_at, "wait", "dispatched", lasted=lasted)


def _attempt(attempt: Attempt) -> Entry:
    error = ": ".join(filter(None, (attempt.error_kind, attempt.error_message)))
    return Entry(
        attempt.started_at,
        "attempt",
        f"{attempt.phase}/{attempt.step} {Outcome(attempt.outcome).label.lower()}",
        error,
        _LEVELS.get(attempt.outcome, ""),
        attempt.ended_at - attempt.started_at,
        attempt.worker,
        attempt.pk,
    )


def _audit_entry(change: AuditEntry) -> Entry:
    who = f"{change.action} by {change.actor or change.source}"
    became = ", ".join(f"{name} {_brief(v)}" for name, v in change.after.items())
    return Entry(change.at, "change", who, "; ".join(filter(None, (became, change.reason))))


def _bulk_change(change: BulkChange) -> Entry:
    who = f"{change.what} by {change.actor}, bulk action #{change.action}"
    detail = "; ".join(filter(None, (change.became, change.reason)))
    return Entry(change.at, "change", who, detail, bulk_action=change.action)


def _brief(value: Any) -> str:
    """A value in one word; the audit log has nested ones in full."""
    return "edited" if isinstance(value, dict | list) else str(value)
