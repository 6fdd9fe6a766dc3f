"""Writes the schedules that code states into their rows, and retires those that no worker states any more.

Which of code and people wins is decided as for limits (`scheduling.settings_sync`): the latest change of a
field. A row that code made is retired, and keeps its history, once no worker has stated it for
`rollback_seconds`.
"""

from __future__ import annotations

from datetime import datetime

from queuemgr.base import transaction
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import AuditEntry, Schedule
from queuemgr.schedules import plan
from queuemgr.schedules.declaration import registered
from queuemgr.scheduling import settings_sync
from queuemgr.scheduling.settings_sync import SETTINGS
from queuemgr.scheduling.worker_statements import Statement, Values, read_statements

KIND = "schedules"
RETIRE, BRING_BACK = "retire schedule", "bring back schedule"


def stated() -> dict[str, Values]:
    """The fields of the schedules that this process states, by name."""
    return {schedule.name: schedule.fields() for schedule in registered()}


def with_schedules(statement: Statement) -> Statement:
    """A worker's statement, and the schedules it states."""
    return {**statement, KIND: stated()}


def sync(*, as_newest: bool = False) -> None:
    """Make the rows of the schedules that this process states, and write into them what no release stated
    before. Call it once the worker's own statement is stored: a row that nobody states is retired."""
    schedules = stated()
    if not schedules:
        return
    now = database_now()
    with transaction.atomic():
        known = set(Schedule.objects.filter(name__in=schedules).values_list("name", flat=True))
        made = settings_sync.as_made(schedules, known)
        rows = [Schedule(name=name, created_at=now, **fields) for name, fields in made.items()]
        Schedule.objects.bulk_create(rows, ignore_conflicts=True)
        for row in Schedule.objects.filter(name__in=schedules).order_by("name"):
            settings_sync.state(row, schedules[row.name], as_newest=as_newest)
        _bring_back(list(schedules))
    plan.plan_changed()


def _bring_back(names: list[str]) -> None:
    """What code states again runs again, from now on."""
    retired = Schedule.objects.select_for_update().filter(name__in=names, retired_at__isnull=False)
    for row in retired.order_by("name"):
        _record(BRING_BACK, row.name, "retired", "in force")
        row.retired_at, row.planned_for = None, ""
        row.save(update_fields=["retired_at", "planned_for"])


def retire_removed(now: datetime) -> int:
    """Retire the schedules that code made and that no worker states any more; returns how many. Workers of a
    release without schedules say nothing about them."""
    statements = read_statements(now)
    if not any(KIND in each for each in statements.running):
        return 0
    named = {name for each in statements.lately for name in each.get(KIND, {})}
    removed = Schedule.objects.in_force().exclude(from_settings={}).exclude(name__in=named)
    if not removed.exists():
        return 0
    with transaction.atomic():
        rows = list(removed.select_for_update(skip_locked=True).order_by("name"))
        for row in rows:
            _record(RETIRE, row.name, "in force", "retired: no code states it any more")
        Schedule.objects.filter(pk__in=[row.pk for row in rows]).update(
            retired_at=now, next_due_at=None, held_due_at=None, awaits_end=False
        )
    return len(rows)


def _record(action: str, name: str, before: str, after: str) -> None:
    AuditEntry.objects.create(
        actor=SETTINGS, source=SETTINGS, reason=settings_sync.CHANGED, action=action, target=name,
        before={"is": before}, after={"is": after},
    )  # fmt: skip
