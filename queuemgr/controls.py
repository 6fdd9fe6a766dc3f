"""What a person may do, each recorded as a Change: the admin, the commands and an API call these.

Every verb takes `by`: who acts, through what, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q

from queuemgr import gates, limits, policies, wakeups
from queuemgr.admission import FLEET
from queuemgr.dispatch import dispatch
from queuemgr.errors import BadInput
from queuemgr.fleet_lock import database_now
from queuemgr.models import (
    Change,
    Execution,
    Gate,
    Limit,
    Pausable,
    Queue,
    RetryPolicy,
)  # fmt: skip

ROWS_AT_A_TIME = 500

Fact = Callable[[Execution], dict[str, str]]


@dataclass(frozen=True)
class By:
    """Who acts, through what (admin, command, api), and why."""

    actor: str
    source: str
    reason: str = ""

    def record(self, action: str, target: str, before: Any = None, after: Any = None) -> None:
        self._change(action, target, before, after).save()

    def record_each(
        self, action: str, executions: Iterable[Execution], before: Fact, after: Fact
    ) -> None:
        """One record per execution, written together."""
        Change.objects.bulk_create(
            self._change(action, str(e), before(e), after(e)) for e in executions
        )

    def _change(self, action: str, target: str, before: Any, after: Any) -> Change:
        return Change(
            actor=self.actor,
            source=self.source,
            reason=self.reason,
            action=action,
            target=target,
            before=before or {},
            after=after or {},
        )


def pause(target: str, by: By, until: datetime | None = None) -> None:
    """Stop starts through a queue (`prep.high`), a limit (`host:…`), a phase or `everything`.

    What runs goes on. Raises `BadInput` when there is no such thing to pause.
    """
    for row in _pausable(target):
        _change_pause(row, by, paused_at=database_now(), paused_by=by.actor, until=until)


def resume(target: str, by: By) -> None:
    """Undo `pause`, and open a limit the fleet had closed; raises `BadInput` when there is no such
    thing."""
    for row in _pausable(target):
        _change_pause(row, by, paused_at=None, paused_by="", until=None)
        _open_gates([str(row)], by)
    transaction.on_commit(dispatch)


def open_limits(names: Iterable[str], by: By) -> list[str]:
    """Open limits the fleet had closed at once, and let them through in full; a pattern stands for
    every key that goes by it. Returns those that were closed or reopening."""
    opened = _open_gates(_closed_under(names), by)
    transaction.on_commit(dispatch)
    return opened


def _closed_under(names: Iterable[str]) -> list[str]:
    """The limits of these names that are closed or reopening, and those that go by these patterns."""
    wanted = set(names)
    owner = limits.owner_among(Limit.objects.values_list("name", flat=True))
    closed = Gate.objects.filter(Q(closed_until__isnull=False) | Q(opening__gt=0))
    found = closed.order_by("name").values_list("name", flat=True)
    return [name for name in found if name in wanted or owner(name) in wanted]


@transaction.atomic
def _open_gates(names: Sequence[str], by: By) -> list[str]:
    opened: list[str] = []
    for start in range(0, len(names), ROWS_AT_A_TIME):
        opened += gates.open_now(names[start : start + ROWS_AT_A_TIME])
    for name in opened:
        by.record("open limit", name, {"is": "closed"}, {"is": "open"})
    wakeups.leave(limits=opened)
    return opened


FIGURES = (
    "max_running", "reserved_high", "rate", "daily_budget", "budget_zone", "kept_for_high",
    "kept_from_low", "share", "breaker_after",
)  # fmt: skip
"""The figures of a limit a person may set."""


def edit_limit(name: str, by: By, **figures: Any) -> Limit:
    """Set figures of a limit (`max_running`, `rate`, `daily_budget`, …), making its row if need be;
    work waiting for room starts at once. A new row begins with the figures of the pattern its name went
    by so far. Raises `ValidationError` on impossible ones."""
    # The settings' own figures are written first: a later sync would take this row for one of theirs.
    limits.sync()
    with transaction.atomic():
        limit = Limit.objects.select_for_update().filter(name=name).first() or new_limit(name)
        before = {field: getattr(limit, field) for field in figures} if limit.pk else {}
        for field, value in figures.items():
            setattr(limit, field, value)
        limit.full_clean()
        limit.save()
        by.record("edit limit", name, before, figures)
        wakeups.leave(limits=[wakeups.EVERYTHING])
        transaction.on_commit(dispatch)
    return limit


def new_limit(name: str) -> Limit:
    """A row to be, for a name that so far went by a pattern's figures, which it keeps. Not saved."""
    patterns = Limit.objects.filter(name__endswith="*")
    alike = [p for p in patterns if name.startswith(p.name[:-1])]
    pattern = max(alike, key=lambda limit: len(limit.name), default=None)
    figures = {figure: getattr(pattern, figure) for figure in FIGURES} if pattern else {}
    return Limit(name=name, **figures)


def edit_queue(name: str, by: By, *, max_pending: int) -> Queue:
    """Set how many executions may wait in a queue (0: no cap)."""
    with transaction.atomic():
        queue: Queue = Queue.objects.select_for_update().get(name=name)
        before = {"max_pending": queue.max_pending}
        queue.max_pending = max_pending
        queue.save()
        by.record("edit queue", name, before, {"max_pending": max_pending})
    return queue


def edit_policy(kind: str, phase: str, by: By, **figures: Any) -> RetryPolicy:
    """Set figures of a retry policy, making the row of this phase if need be (empty: every phase);
    the next failure goes by it. Raises `ValidationError` on impossible ones, and `BadInput` for a
    kind or a phase nobody knows."""
    policies.check(kind, phase)
    with transaction.atomic():
        rows = RetryPolicy.objects.select_for_update()
        found = rows.filter(kind=kind, phase=phase).first()
        policy = found or RetryPolicy(
            kind=kind, phase=phase, **asdict(policies.policy_for(kind, phase))
        )
        before = {field: getattr(policy, field) for field in figures} if found else {}
        for field, value in figures.items():
            setattr(policy, field, value)
        policy.full_clean()
        policy.save()
        by.record("edit retry policy", str(policy), before, figures)
    return policy


def delete_policy(kind: str, phase: str, by: By) -> None:
    """Let a phase go by the policy for every phase again; raises `BadInput` for that one itself."""
    if not phase:
        raise BadInput(
            f"the policy of {kind} for every phase stays; edit it, or add one for a phase"
        )
    with transaction.atomic():
        policy = RetryPolicy.objects.select_for_update().get(kind=kind, phase=phase)
        before = {figure: getattr(policy, figure) for figure in policies.FIGURES}
        by.record("delete retry policy", str(policy), before)
        policy.delete()


def _pausable(target: str) -> Sequence[Pausable]:
    """The rows a name a person gives stands for."""
    limits.sync()
    name = FLEET if target in ("everything", "all") else target
    queue = Queue.objects.filter(name=name).first()
    if queue is not None:
        return [queue]
    limit = Limit.objects.filter(name__in=(name, f"phase:{name}")).first()
    if limit is None and ":" in name:
        limit = new_limit(name)
    if limit is None:
        known = [
            *Queue.objects.values_list("name", flat=True),
            *Limit.objects.values_list("name", flat=True),
        ]
        raise BadInput(f"nothing is called {target!r}; there are: everything, {', '.join(known)}")
    return [limit]


@transaction.atomic
def _change_pause(
    row: Pausable, by: By, *, paused_at: datetime | None, paused_by: str, until: datetime | None
) -> None:
    before = row.pause_sentence() if row.paused_at else "running"
    row.paused_at, row.paused_by, row.paused_until = paused_at, paused_by, until
    row.pause_reason = by.reason[:200] if paused_at else ""
    row.save()
    wakeups.leave(limits=[wakeups.EVERYTHING])
    after = row.pause_sentence() if paused_at else "running"
    action = "pause" if paused_at else "resume"
    by.record(action, str(row), {"is": before}, {"is": after})
