"""What a person may do, each recorded as a Change: the admin, the commands and an API call these.

Every verb takes `by`: who acts, through what, and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from queuemgr import finish, routes, states
from queuemgr.admission import FLEET
from queuemgr.dispatch import dispatch
from queuemgr.errors import BadInput
from queuemgr.fleet_lock import database_now, deciding
from queuemgr.flow import PRIORITY_NAMES, get_flow
from queuemgr.models import Change, Execution, Lease, Limit, Pausable, Queue, State

ROWS_AT_A_TIME = 500


@dataclass(frozen=True)
class By:
    """Who acts, through what (admin, command, api), and why."""

    actor: str
    source: str
    reason: str = ""

    def record(self, action: str, target: str, before: Any = None, after: Any = None) -> None:
        Change.objects.create(
            actor=self.actor,
            source=self.source,
            reason=self.reason,
            action=action,
            target=target,
            before=before or {},
            after=after or {},
        )


def retry(executions: Iterable[Execution], by: By) -> int:
    """Let failed, cancelled or skipped executions go on from the step they stopped at.

    Others are left alone; returns how many wait again.
    """
    return _in_chunks(executions, by, _retry_one)


def cancel(executions: Iterable[Execution], by: By) -> int:
    """Cancel what waits at once; ask what runs to stop, which its worker hears within seconds."""
    return _in_chunks(executions, by, _cancel_one)


def set_priority(executions: Iterable[Execution], priority: int, by: By) -> int:
    """Raise or lower the priority; work under way keeps its slot and goes on at the new one."""
    return _in_chunks(
        executions, by, lambda execution, now, by: _set_priority(execution, priority, by)
    )


def pause(target: str, by: By, until: datetime | None = None) -> None:
    """Stop starts through a queue (`prep.high`), a limit (`host:…`), a phase or `everything`.

    What runs goes on. Raises `BadInput` when there is no such thing to pause.
    """
    for row in _pausable(target):
        _change_pause(row, by, paused_at=database_now(), paused_by=by.actor, until=until)


def resume(target: str, by: By) -> None:
    """Undo `pause`; raises `BadInput` when there is no such thing."""
    for row in _pausable(target):
        _change_pause(row, by, paused_at=None, paused_by="", until=None)
    dispatch()


def edit_limit(name: str, by: By, **figures: Any) -> Limit:
    """Set figures of a limit (`max_running`, `reserved_high`, `daily_budget`), making its row if
    need be; work waiting for room starts at once. Raises `ValidationError` on impossible ones."""
    with transaction.atomic():
        limit = Limit.objects.select_for_update().filter(name=name).first() or Limit(name=name)
        before = {field: getattr(limit, field) for field in figures} if limit.pk else {}
        for field, value in figures.items():
            setattr(limit, field, value)
        limit.full_clean()
        limit.save()
        by.record("edit limit", name, before, figures)
        transaction.on_commit(dispatch)
    return limit


def _in_chunks(executions: Iterable[Execution], by: By, act: Any) -> int:
    ids = [execution.pk for execution in executions]
    changed = 0
    for start in range(0, len(ids), ROWS_AT_A_TIME):
        with deciding() as now:
            rows = Execution.objects.filter(pk__in=ids[start : start + ROWS_AT_A_TIME])
            changed += sum(act(execution, now, by) for execution in rows)
    dispatch()
    return changed


def _retry_one(execution: Execution, now: datetime, by: By) -> bool:
    if State.WAITING not in states.MOVES[execution.state] or execution.state in (
        State.LEASED,
        State.RUNNING,
    ):
        return False
    _record(execution, by, "retry", State.WAITING)
    changes = _route(execution, execution.priority, resumed=True)
    states.move(
        [execution.pk],
        State.WAITING,
        **changes,
        resumed=True,
        run_after=now,
        tries_from=now,
        finished_at=None,
        wait_reason="",
    )
    return True


def _cancel_one(execution: Execution, now: datetime, by: By) -> bool:
    finish.give_back(list(_lease(execution).unstarted().values_list("pk", flat=True)))
    if _lease(execution).filter(cancel_by="").update(cancel_by=by.actor or by.source):
        _record(execution, by, "cancel", "asked to stop")
        return True
    if execution.state not in (State.WAITING, State.LEASED):
        return False
    _record(execution, by, "cancel", State.CANCELLED)
    states.move(
        [execution.pk],
        State.CANCELLED,
        finished_at=now,
        route_id=None,
        wait_reason=f"cancelled by {by.actor}"[:200],
    )
    return True


def _set_priority(execution: Execution, priority: int, by: By) -> bool:
    if execution.priority == priority:
        return False
    names = {"priority": PRIORITY_NAMES[execution.priority]}, {"priority": PRIORITY_NAMES[priority]}
    by.record("set priority", str(execution), *names)
    changes: dict[str, Any] = {"priority": priority}
    if execution.state in (State.WAITING, State.LEASED):
        finish.give_back(list(_lease(execution).unstarted().values_list("pk", flat=True)))
        changes |= _route(execution, priority, resumed=execution.resumed)
    Execution.objects.filter(pk=execution.pk).update(**changes)
    return True


def _lease(execution: Execution) -> Any:
    return Lease.objects.filter(execution=execution)


def _route(execution: Execution, priority: int, *, resumed: bool) -> dict[str, Any]:
    place = get_flow(execution.flow).at(execution.phase, execution.step)
    key = routes.key_of(place, priority, execution.given, resumed=resumed)
    return {"route_id": routes.route_id(key)}


def _record(execution: Execution, by: By, action: str, after: str) -> None:
    by.record(action, str(execution), {"state": execution.state}, {"state": str(after)})


def _pausable(target: str) -> Sequence[Pausable]:
    """The rows a name a person gives stands for."""
    name = FLEET if target in ("everything", "all") else target
    queue = Queue.objects.filter(name=name).first()
    if queue is not None:
        return [queue]
    limit = Limit.objects.filter(name__in=(name, f"phase:{name}")).first()
    if limit is None and ":" in name:
        limit = _named_like_its_pattern(name)
    if limit is None:
        known = [
            *Queue.objects.values_list("name", flat=True),
            *Limit.objects.values_list("name", flat=True),
        ]
        raise BadInput(f"nothing is called {target!r}; there are: everything, {', '.join(known)}")
    return [limit]


def _named_like_its_pattern(name: str) -> Limit:
    """A row of its own for a key that so far went by a pattern's figures, which it keeps."""
    from queuemgr.limits import rule_of

    rule = rule_of(name)
    return Limit(name=name, max_running=rule.max_running, reserved_high=rule.reserved_high)


@transaction.atomic
def _change_pause(
    row: Pausable, by: By, *, paused_at: datetime | None, paused_by: str, until: datetime | None
) -> None:
    before = row.pause_sentence() if row.paused_at else "running"
    row.paused_at, row.paused_by, row.paused_until = paused_at, paused_by, until
    row.pause_reason = by.reason[:200] if paused_at else ""
    row.save()
    after = row.pause_sentence() if paused_at else "running"
    action = "pause" if paused_at else "resume"
    by.record(action, str(row), {"is": before}, {"is": after})
