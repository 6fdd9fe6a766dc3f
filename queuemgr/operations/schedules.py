"""What a person does to schedules: make, edit, pause, resume, run now, delete; the admin, the commands and
the API call these.

Every function takes `by`: who acts, through what, and why, for the audit log. Payloads are recorded apart
from the other fields, since not everybody who reads the audit log may read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from queuemgr.base import transaction
from queuemgr.base.errors import BadInput, ConfigurationError
from queuemgr.base.redaction import masked
from queuemgr.base.safe_text import excerpt
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import PRIORITIES
from queuemgr.flows.payload_validation import restore_masked, validate
from queuemgr.lifecycle.enqueue import check_rank
from queuemgr.models import Misfire, Overlap, RunOutcome, Schedule
from queuemgr.models.schedules import MAX_JITTER, MAX_MADE_UP
from queuemgr.operations import named_rows, remote_work
from queuemgr.operations.controls import ABSENT, Actor, field_values
from queuemgr.schedules import declaration, new_runs, plan, timing

FIELDS = ("timing", "priority", "misfire", "misfire_limit", "overlap", "jitter")
"""What a person may set besides the payload."""

CREATE, EDIT_PAYLOAD, DELETE = "create schedule", "edit schedule payload", "delete schedule"
RUN = "run schedule"


def find(name: str) -> Schedule:
    """The schedule of this name. Raises `BadInput`, which lists those with a similar one."""
    return named_rows.find(Schedule, name)


def create(
    name: str, flow: str, when: str, by: Actor, *, payload: Mapping[str, Any] | None = None, **values: Any
) -> Schedule:
    """Make a schedule, in force from now on. Raises `BadInput` and `UnknownFlow`."""
    try:
        declaration.check_name(name)
    except ConfigurationError as error:
        raise BadInput(str(error)) from None
    remote_work.check_flow(by, flow)
    fields, given = _checked({"timing": when, **values}), remote_work.payload_by(by, flow, payload or {})
    row = Schedule(name=name, flow=flow, payload=given, created_at=database_now(), **fields)
    with transaction.atomic():
        named_rows.check_is_new(Schedule, name)
        row.save()
        by.record(CREATE, name, {}, {"flow": flow, **field_values(row, FIELDS)})
    return _planned(row)


def edit(
    name: str, by: Actor, *, payload: Mapping[str, Any] | None = None, shown: Callable[[Any], Any] = masked,
    **values: Any,
) -> Schedule:  # fmt: skip
    """Set fields of a schedule (`FIELDS`, and its payload). They stay until the code states other values of
    them. What is masked in the payload, as `shown` masks it, keeps its value. Raises `BadInput`."""
    row, checked = find(name), _checked(values)
    new_payload = None if payload is None else restore_masked(validate(payload), row.payload, shown)
    if new_payload is not None:
        new_payload = remote_work.payload_by(by, row.flow, new_payload, row.payload)
    with transaction.atomic():
        row = named_rows.find_for_update(Schedule, name)
        named_rows.set_fields(row, by, checked)
        if new_payload is not None and new_payload != row.payload:
            was, is_now = ({"payload": masked(one)} for one in (row.payload, new_payload))
            by.record(EDIT_PAYLOAD, name, was, is_now)
            row.payload = new_payload
            row.save(update_fields=["payload"])
    return _planned(row)


def delete(name: str, by: Actor) -> None:
    """Delete a schedule with the record of its runs. What it enqueued stays. Raises `BadInput` for one that
    code states, which would come back."""
    row = find(name)
    if row.is_stated and row.retired_at is None:
        raise BadInput(
            f"schedule {name!r} is stated by code and would come back: pause it, or remove it there"
        )
    with transaction.atomic():
        by.record(DELETE, name, {"flow": row.flow, **field_values(row, FIELDS)}, ABSENT)
        row.delete()


def pause(name: str, by: Actor, until: datetime | None = None) -> None:
    """Skip its runs, each with the reason, until it is resumed. What it enqueued before continues."""
    named_rows.pause(Schedule, name, by, until)


def resume(name: str, by: Actor) -> None:
    """Run it again from its next due time on. Raises `BadInput` for one that is not paused."""
    named_rows.resume(Schedule, name, by)


def run_now(name: str, by: Actor) -> str:
    """Enqueue it now, whether it is due, paused or running or not; returns the key of the execution. Raises
    `BadInput` with the reason where that is refused."""
    row = find(name)
    row.jitter = 0
    now = database_now()
    key = new_runs.key_of(name, now)
    new = new_runs.new_run(row, now, now, requested_by=by.actor)
    with transaction.atomic():
        (run,) = new_runs.insert([new], now)
        if run.outcome != RunOutcome.ENQUEUED:
            raise BadInput(f"schedule {name!r} cannot be run: {run.reason}")
        run.save()
        by.record(RUN, name, {}, {"key": key})
    return key


def _planned(row: Schedule) -> Schedule:
    plan.plan_changed()
    row.refresh_from_db()
    return row


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as rows have them. Raises `BadInput` for one that is not valid, by its name."""
    checks: dict[str, Callable[[Any], Any]] = {
        "timing": lambda value: str(timing.parse(value)),
        "priority": _priority,
        "misfire": lambda value: _one_of("misfire", value, Misfire.values),
        "misfire_limit": lambda value: _whole("misfire_limit", value, 1, MAX_MADE_UP),
        "overlap": lambda value: _one_of("overlap", value, Overlap.values),
        "jitter": lambda value: _whole("jitter", value, 0, MAX_JITTER),
    }
    return named_rows.checked(Schedule, values, checks)


def _priority(value: Any) -> int:
    rank: Any = PRIORITIES.get(value, value) if isinstance(value, str) else value
    check_rank(rank)
    return int(rank)


def _one_of(what: str, value: Any, known: list[str]) -> str:
    if value not in known:
        raise BadInput(f"{what} {excerpt(value)} is not one of {', '.join(known)}")
    return str(value)


def _whole(what: str, value: Any, least: int, most: int) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = least - 1
    if not least <= number <= most or isinstance(value, bool):
        raise BadInput(f"{what} {excerpt(value)} is no whole number from {least} to {most}")
    return number
