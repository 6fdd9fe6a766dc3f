"""Undoing a change: its `before` is restored, if the present state is still its `after`.

At most once for each audit entry, by the functions that made the change; the undo has an entry of its own,
and can be undone in turn. A cancellation is undone for work that had not started. Resetting a breaker, retry
and skip cannot be undone: do the opposite instead. What a bulk action did is undone by another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError

from queuemgr.base import transaction
from queuemgr.base.after_commit import after_commit
from queuemgr.base.errors import BadInput, CannotUndo
from queuemgr.base.redaction import masked
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import PRIORITIES, PRIORITY_NAMES
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import (
    LIMIT_FIELDS,
    AuditEntry,
    BulkAction,
    Execution,
    Limit,
    Pausable,
    Queue,
    RetryPolicy,
    Schedule,
    State,
)
from queuemgr.operations import bulk, controls, executions, failure_retention, named_rows, schedules, workers
from queuemgr.operations.audit_log import value_in_words
from queuemgr.operations.bulk.audit import START
from queuemgr.operations.controls import ABSENT, Actor, Pause, field_values, pause_of
from queuemgr.scheduling import limit_rows, retry_policies
from queuemgr.scheduling.limit_rows import new_limit

MAX_LATER_ENTRIES = 50
"""How many later entries are searched for whoever changed it since."""

SAME_MOMENT = timedelta(minutes=5)
"""How far the clock that an entry was written by may be from that of the database."""

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Undoable:
    """How changes of one kind are undone: the permissions, the present state, and how to restore it."""

    permissions: Callable[[AuditEntry], tuple[str, ...]]
    """What the change itself asked for."""
    now: Callable[[AuditEntry], Values]
    """The present state, in the fields of the entry's `after`."""
    restore: Callable[[AuditEntry, Actor], object]
    remove: Callable[[AuditEntry, Actor], object] | None = None
    """Used instead where there was no row before."""
    removal: str = ""
    """The permission needed besides to remove the row; empty: none."""
    writes_limits: bool = False
    """Whether the rows that settings and flows state must be there first."""


def undo(change: AuditEntry, by: Actor) -> AuditEntry:
    """Restore what was before; returns the audit entry of the undo.

    Raises `CannotUndo` when it was undone already, when something has changed since (naming what, and
    who changed it), or when it is of a kind that cannot be undone.
    """
    put_back = _prepared(change)
    with transaction.atomic():
        AuditEntry.objects.select_for_update().get(pk=change.pk)
        check(change)
        reason = by.reason or f"undoes change {change.pk}"
        try:
            put_back(change, replace(by, undoes=change.pk, reason=reason))
        except (ValidationError, BadInput) as error:
            said = " ".join(getattr(error, "messages", [str(error)]))
            raise CannotUndo(f"what was before cannot be restored: {said}") from None
        undone = AuditEntry.objects.filter(undoes=change.pk).first()
        if undone is None:
            raise CannotUndo(f"{change.target} has changed since")
        # What was found under the lock must be what was just checked without one.
        _raise_on_difference(change, {**undone.before, **(undone.before.get("row") or {})})
        after_commit(dispatch)
        return undone


def _prepared(change: AuditEntry) -> Callable[[AuditEntry, Actor], object]:
    """What puts it back. The flows' `limits`, code of applications, are called here: no row is held yet."""
    kind, had_no_row = _kind_of(change), change.before.get("row", ...) is None
    if kind.remove is _remove_limit and had_no_row:
        return partial(_remove_limit, is_stated=limit_rows.is_stated(change.target))
    if kind.writes_limits:
        limit_rows.ensure()
    return kind.remove if kind.remove and had_no_row else kind.restore


def check(change: AuditEntry) -> None:
    """Raise `CannotUndo`, with the reason, where `undo` would."""
    kind = _kind_of(change)
    undone = AuditEntry.objects.filter(undoes=change.pk).first()
    if undone:
        raise CannotUndo(f"undone already, by {undone.actor} at {undone.at:%Y-%m-%d %H:%M} UTC")
    now = kind.now(change)
    _raise_on_difference(change, {name: now.get(name) for name in {**now, **_left(change)}})


def _raise_on_difference(change: AuditEntry, now: Values) -> None:
    """Raise `CannotUndo` naming the first value that is not as this change left it."""
    for name, value in _left(change).items():
        if name not in now or now[name] == value:
            continue
        what, is_now, was = name, now[name], value
        if name in PAUSE:
            what, is_now, was = "it", now.get("is"), change.after.get("is", "running")
        raise CannotUndo(
            f"{change.target} has changed since: {what} is {value_in_words(is_now)} now, and this change "
            f"left it {value_in_words(was)}{_changed_by(change, name)}"
        )


def permissions(change: AuditEntry) -> tuple[str, ...]:
    """Those needed besides `undo_auditentry`: what doing the same by hand asks for. Raises `CannotUndo` for a
    kind that cannot be undone."""
    kind, had_no_row = _kind_of(change), change.before.get("row", ...) is None
    removal = (f"queuemgr.{kind.removal}",) if kind.removal and had_no_row else ()
    return (*kind.permissions(change), *removal)


def _kind_of(change: AuditEntry) -> Undoable:
    if change.action not in KINDS:
        raise CannotUndo(f"{change.action!r} is not undone; {', '.join(KINDS)} are")
    return KINDS[change.action]


PAUSE = ("is", "paused_at", "paused_by", "pause_reason", "paused_until")
"""The values of a pause: a sentence, and the columns."""


def _left(change: AuditEntry) -> Values:
    """The values that must be unchanged for the undo to apply; of a new row, all its fields."""
    after = change.after
    pause = {name: after[name] for name in PAUSE if name in after}
    if "paused_at" in pause:
        del pause["is"]  # its sentence is made of the columns
    if "row" not in after:
        return {**after, **pause} if "is" not in after else pause
    if not pause and change.action == "edit limit":
        pause = {"is": "running"}
    return {**(after["row"] or ABSENT), **pause}


def _changed_by(change: AuditEntry, name: str) -> str:
    """`; bob did that at …`, if the audit log says so."""
    field = "is" if name in PAUSE else name
    later = AuditEntry.objects.filter(target=change.target, pk__gt=change.pk).order_by("-pk")
    for other in later[:MAX_LATER_ENTRIES]:
        if field in other.after or "row" in other.after:
            return f"; {other.actor} did that at {other.at:%Y-%m-%d %H:%M} UTC (change {other.pk})"
    return "; the audit log does not say who did that"


# Limits, and pauses of limits and queues.


def _limit_now(change: AuditEntry) -> Values:
    limit = Limit.objects.filter(name=change.target).first()
    if limit is None:
        return ABSENT
    return {**field_values(limit, LIMIT_FIELDS), **pause_of(limit).serialize(), "row": limit.name}


def _pausable(change: AuditEntry) -> Pausable | None:
    """The row; of a key without one, an unsaved one, as a pause of it would make."""
    queue = Queue.objects.filter(name=change.target).first()
    row = queue or Limit.objects.filter(name=change.target).first()
    return row or (new_limit(change.target) if ":" in change.target else None)


def _pause_now(change: AuditEntry) -> Values:
    row = _pausable(change)
    if isinstance(row, Limit) and (row.pk is not None or "row" in change.after):
        return _limit_now(change)
    return pause_of(row).serialize() if row else {}


def _restore_pause(change: AuditEntry, by: Actor) -> None:
    row = _pausable(change)
    assert row is not None
    controls.set_pause(row, by, _pause_before(change))


def _pause_before(change: AuditEntry) -> Pause:
    pause = Pause.parse(change.before)
    if pause.paused_until and pause.paused_until <= database_now():
        raise BadInput(f"that pause was to end at {pause.paused_until:%Y-%m-%d %H:%M} UTC")
    return pause


def _may_pause(change: AuditEntry) -> tuple[str, ...]:
    return (f"queuemgr.pause_{'queue' if isinstance(_pausable(change), Queue) else 'limit'}",)


# Queues, policies, priorities.


def _policy_now(change: AuditEntry) -> Values:
    kind, phase = _kind_and_phase(change)
    policy = RetryPolicy.objects.filter(kind=kind, phase=phase).first()
    if policy is None:
        return ABSENT
    return {**field_values(policy, retry_policies.POLICY_FIELDS), "row": str(policy)}


def _kind_and_phase(change: AuditEntry) -> tuple[str, str]:
    kind, _, phase = change.target.partition(" in ")
    return kind, phase


def _execution(change: AuditEntry) -> Execution | None:
    flow, _, key = change.target.partition("/")
    return Execution.objects.filter(flow=flow, key=key).first()


def _priority_now(change: AuditEntry) -> Values:
    execution = _execution(change)
    return {"priority": PRIORITY_NAMES[execution.priority]} if execution else {}


def _restore_priority(change: AuditEntry, by: Actor) -> None:
    execution = _execution(change)
    assert execution is not None
    executions.set_priority([execution], PRIORITIES[change.before["priority"]], by)


def _cancelled_now(change: AuditEntry) -> Values:
    if change.after.get("state") != State.CANCELLED:
        raise CannotUndo(f"{change.target} ran when it was cancelled, and that is not undone: retry it")
    execution = _execution(change)
    if execution is None:
        return {"state": None}
    is_later = execution.finished_at and abs(execution.finished_at - change.at) > SAME_MOMENT
    if execution.state == State.CANCELLED and is_later:
        raise CannotUndo(f"{change.target} has changed since: it was cancelled again")
    return {"state": execution.state}


def _restore_cancelled(change: AuditEntry, by: Actor) -> None:
    execution = _execution(change)
    assert execution is not None
    executions.put_back([execution], by)


def last_undoable(execution: Execution) -> AuditEntry:
    """The last change of this execution that can be undone. Raises `CannotUndo` where there is none."""
    of_it = AuditEntry.objects.filter(target=str(execution), action__in=(executions.CANCEL, "set priority"))
    last = of_it.filter(undone_by=None, undoes=None).order_by("-pk").first()
    if last is None:
        raise CannotUndo(f"nobody cancelled {execution} or changed its priority, or that was undone")
    return last


# Schedules.


def _schedule_now(change: AuditEntry) -> Values:
    row = Schedule.objects.filter(name=change.target).first()
    return field_values(row, schedules.FIELDS) | {"payload": masked(row.payload)} if row else {}


def _schedule_pause_now(change: AuditEntry) -> Values:
    row = Schedule.objects.filter(name=change.target).first()
    return pause_of(row).serialize() if row else {}


def _restore_schedule(change: AuditEntry, by: Actor) -> None:
    schedules.edit(change.target, by, **change.before)


def _restore_schedule_pause(change: AuditEntry, by: Actor) -> None:
    named_rows.set_pause(Schedule, change.target, by, _pause_before(change))


# Bulk actions: undone as a whole, in the background, by the entry of their start.


def _may_restore(change: AuditEntry) -> tuple[str, ...]:
    action = BulkAction.objects.filter(pk=change.action_id or 0).first()
    if action is None or action.verb not in bulk.UNDONE_BY:
        raise CannotUndo("what it did cannot be undone: start the opposite action")
    return (f"queuemgr.{bulk.UNDONE_BY[action.verb].permission}",)


def _bulk_now(change: AuditEntry) -> Values:
    """Skipped here: each execution is compared when its chunk runs."""
    try:
        bulk.check_undoable(change.action_id or 0)
    except BadInput as error:
        raise CannotUndo(str(error)) from None
    return dict(change.after)


def _may(*codenames: str) -> Callable[[AuditEntry], tuple[str, ...]]:
    return lambda change: tuple(f"queuemgr.{codename}" for codename in codenames)


def _remove_limit(change: AuditEntry, by: Actor, *, is_stated: bool = True) -> None:
    controls.delete_limit(change.target, by, is_stated=is_stated)


def _may_edit_limit(change: AuditEntry) -> tuple[str, ...]:
    """The right to change limits, and what each of its fields asks for besides."""
    sides = (change.before, change.after)
    fields = {name for side in sides for name in (*side, *(side.get("row") or ()))}
    asked = {field.permission for field in LIMIT_FIELDS.values() if field.name in fields}
    return tuple(sorted(f"queuemgr.{codename}" for codename in {"change_limit", *asked}))


_LIMIT = Undoable(
    _may_edit_limit, _limit_now,
    lambda change, by: controls.set_limit(change.target, by, **change.before), _remove_limit,
    writes_limits=True,
)  # fmt: skip
_PAUSE = Undoable(_may_pause, _pause_now, _restore_pause, _remove_limit)
_DRAIN = Undoable(
    _may("drain_worker"), lambda change: workers.now_of(change.target),
    lambda change, by: workers.restore(change.target, by, change.before),
)  # fmt: skip
_SCHEDULE = Undoable(_may("change_schedule"), _schedule_now, _restore_schedule)
_SCHEDULE_PAUSE = Undoable(_may("pause_schedule"), _schedule_pause_now, _restore_schedule_pause)
_POLICY = Undoable(
    _may("change_retrypolicy"), _policy_now,
    lambda change, by: controls.edit_policy(*_kind_and_phase(change), by, **change.before),
    lambda change, by: controls.delete_policy(*_kind_and_phase(change), by),
    removal="delete_retrypolicy",
)  # fmt: skip

KINDS = {
    "edit limit": _LIMIT,
    "restore limit": _LIMIT,
    "remove limit": replace(
        _LIMIT,
        restore=lambda change, by: controls.restore_limit(
            change.target, by, change.before["row"], Pause.parse(change.before)
        ),
    ),
    "pause": _PAUSE,
    "resume": _PAUSE,
    "edit queue": Undoable(
        _may("change_queue"),
        lambda change: Queue.objects.filter(name=change.target).values("max_pending").first() or {},
        lambda change, by: controls.set_queue(change.target, by, **change.before),
        writes_limits=True,
    ),
    "edit schedule": _SCHEDULE,
    schedules.EDIT_PAYLOAD: replace(
        _SCHEDULE, permissions=_may("change_schedule", "edit_payload", "view_payload")
    ),
    "pause schedule": _SCHEDULE_PAUSE,
    "resume schedule": _SCHEDULE_PAUSE,
    failure_retention.KEEP: Undoable(
        _may("change_flowretention"),
        lambda change: {"keep_failed_days": failure_retention.stated(change.target)},
        lambda change, by: failure_retention.keep(change.target, change.before["keep_failed_days"], by),
    ),
    workers.DRAIN: _DRAIN,
    workers.RESUME: _DRAIN,
    "edit retry policy": _POLICY,
    "delete retry policy": replace(_POLICY, permissions=_may("add_retrypolicy")),
    START: Undoable(_may_restore, _bulk_now, lambda change, by: bulk.undo(change.action_id or 0, by)),
    executions.CANCEL: Undoable(_may("cancel_execution"), _cancelled_now, _restore_cancelled),
    "set priority": Undoable(_may("prioritise_execution"), _priority_now, _restore_priority),
}
"""The changes that can be undone, by the action of their entry."""
