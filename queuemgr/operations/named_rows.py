"""What a person does alike to schedules and webhooks, rows that are known by their names: find, edit, pause
and resume them. The actions in the audit log are `pause schedule`, `edit webhook` and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, TypeVar

from queuemgr.base import transaction
from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import masked
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.enqueue import check_horizon
from queuemgr.models import Pausable, Schedule, Webhook
from queuemgr.operations.controls import NOT_PAUSED, Actor, Pause, pause_of

NamedRow = Schedule | Webhook
Row = TypeVar("Row", bound=Schedule | Webhook)


def find(model: type[Row], name: str) -> Row:
    """The row of this name. Raises `BadInput`, which lists those with a similar one."""
    row: Row | None = model._default_manager.filter(name=name).first()
    if row is None:
        known = model._default_manager.values_list("name", flat=True)
        alike = list(known.filter(name__icontains=name[:60])[:10]) or list(known[:10])
        raise BadInput(f"no {_noun(model)} is called {name[:80]!r}; there are: {', '.join(alike) or 'none'}")
    return row


def find_for_update(model: type[Row], name: str) -> Row:
    """The row of this name, locked. Raises `BadInput`."""
    row: Row = model._default_manager.select_for_update().get(pk=find(model, name).pk)
    return row


def check_is_new(model: type[NamedRow], name: str) -> None:
    if model._default_manager.filter(name=name).exists():
        raise BadInput(f"a {_noun(model)} is called {name!r} already: edit it, or take another name")


def checked(
    model: type[NamedRow], values: Mapping[str, Any], checks: Mapping[str, Callable[[Any], Any]]
) -> dict[str, Any]:
    """The values as rows have them. Raises `BadInput` for one that is not valid, by its name."""
    if unknown := sorted(values.keys() - checks.keys()):
        raise BadInput(f"a {_noun(model)} has no field {', '.join(unknown)}; there are: {', '.join(checks)}")
    return {name: checks[name](value) for name, value in values.items()}


def set_fields(row: NamedRow, by: Actor, values: Mapping[str, Any]) -> set[str]:
    """Save and record those of these values that are new; returns their names."""
    new = {field: value for field, value in values.items() if value != getattr(row, field)}
    before = {field: getattr(row, field) for field in new}
    for field, value in new.items():
        setattr(row, field, value)
    row.save(update_fields=list(new))
    if new:
        by.record(f"edit {_noun(row)}", row.name, masked(before), masked(new))
    return {*new}


def pause(model: type[NamedRow], name: str, by: Actor, until: datetime | None) -> None:
    if until is not None:
        check_horizon("until", until)
    set_pause(model, name, by, Pause(database_now(), by.actor, by.reason[:200], until))


def resume(model: type[NamedRow], name: str, by: Actor, **columns: Any) -> None:
    """Resume it, and set these columns. Raises `BadInput` for one that is not paused."""
    if find(model, name).paused_at is None:
        raise BadInput(f"{_noun(model)} {name!r} is not paused")
    set_pause(model, name, by, NOT_PAUSED, **columns)


@transaction.atomic
def set_pause(model: type[NamedRow], name: str, by: Actor, wanted: Pause, **columns: Any) -> None:
    """Pause it or resume it (`NOT_PAUSED`)."""
    row = find_for_update(model, name)
    before = pause_of(row).serialize()
    columns |= asdict(wanted)
    for column, value in columns.items():
        setattr(row, column, value)
    row.save(update_fields=list(columns))
    verb = "pause" if wanted.paused_at else "resume"
    by.record(f"{verb} {_noun(row)}", name, before, wanted.serialize())


def _noun(row: Pausable | type[Pausable]) -> str:
    return str(row._meta.verbose_name)
