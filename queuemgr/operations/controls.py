"""What a person may do, each recorded as a Change: the admin, the commands and an API call these.

Every verb takes `by`: who acts, through what, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q

from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import clean
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import check_horizon
from queuemgr.models import (
    AuditEntry,
    Execution,
    Limit,
    LimitState,
    Pausable,
    Queue,
    RetryPolicy,
    pause_sentence,
)
from queuemgr.scheduling import breakers, claims, limit_rows, retry_policies, wakeups
from queuemgr.scheduling.admission import FLEET
from queuemgr.scheduling.limit_rows import LIMIT_FIELDS, new_limit

ROWS_AT_A_TIME = 500

REASON_CHARACTERS = 200
"""Room for a reason in the record; a longer one is cut."""

Describe = Callable[[Execution], dict[str, str]]


@dataclass(frozen=True)
class Actor:
    """Who acts, through what (admin, command, api), and why; and the change this undoes, if any."""

    actor: str
    source: str
    reason: str = ""
    undoes: int | None = None

    def record(
        self, action: str, target: str, before: Any = None, after: Any = None, affected: int = 1
    ) -> None:
        change = self._change(action, target, before, after)
        change.affected = affected
        change.save()

    def record_each(
        self, action: str, executions: Iterable[Execution], before: Describe, after: Describe
    ) -> None:
        """One record per execution, written together."""
        AuditEntry.objects.bulk_create(
            self._change(action, str(e), before(e), after(e)) for e in executions
        )

    def _change(self, action: str, target: str, before: Any, after: Any) -> AuditEntry:
        return AuditEntry(
            actor=self.actor,
            source=self.source,
            reason=clean(self.reason)[:REASON_CHARACTERS],
            action=action,
            target=target,
            before=before or {},
            after=after or {},
            undoes_id=self.undoes,
        )


def pause(target: str, by: Actor, until: datetime | None = None) -> None:
    """Stop starts through a queue (`print.high`), a limit (`host:…`), a phase or `everything`.

    What runs goes on. Raises `BadInput` when there is no such thing to pause.
    """
    if until is not None:
        check_horizon("until", until)
    for row in _pausable(target):
        set_pause(row, by, Pause(database_now(), by.actor, by.reason[:200], until))


def resume(target: str, by: Actor) -> None:
    """Undo `pause`, and close the breaker of a limit; raises `BadInput` when there is no such thing, also
    for a key without a row whose breaker is closed: it may be mistyped."""
    for row in _pausable(target):
        known = row.pk is not None
        if known:
            set_pause(row, by, RUNNING)
        if not _reset_breakers([str(row)], by) and not known:
            raise BadInput(
                f"{target!r} is not paused and its breaker is closed; see `queue limits`"
            )
    transaction.on_commit(dispatch)


def reset_breakers(names: Iterable[str], by: Actor) -> list[str]:
    """Close the breakers of these limits at once; a pattern stands for every key it applies to. Returns
    those that were open or half-open."""
    reset = _reset_breakers(_breakers_under(names), by)
    transaction.on_commit(dispatch)
    return reset


def _breakers_under(names: Iterable[str]) -> list[str]:
    """The limits with these names, or under these patterns, whose breaker is not closed."""
    wanted = set(names)
    owner = claims.rule_resolver(Limit.objects.values_list("name", flat=True))
    states = LimitState.objects.filter(Q(open_until__isnull=False) | Q(half_open_starts__gt=0))
    found = states.order_by("name").values_list("name", flat=True)
    return [name for name in found if name in wanted or owner(name) in wanted]


@transaction.atomic
def _reset_breakers(names: Sequence[str], by: Actor) -> list[str]:
    reset: list[str] = []
    for start in range(0, len(names), ROWS_AT_A_TIME):
        reset += breakers.reset(names[start : start + ROWS_AT_A_TIME])
    for name in reset:
        by.record("reset breaker", name, {"is": "breaker open"}, {"is": "breaker closed"})
    wakeups.post(limits=reset)
    return reset


@dataclass(frozen=True)
class Pause:
    """Since when something is paused, who paused it, why, and until when; not at all: `RUNNING`."""

    paused_at: datetime | None = None
    paused_by: str = ""
    pause_reason: str = ""
    paused_until: datetime | None = None

    def facts(self) -> dict[str, Any]:
        """A sentence for people, and what is needed to put it back."""
        if self.paused_at is None:
            return {"is": "running"}
        said = pause_sentence(self.paused_by, self.pause_reason, self.paused_until)
        until = self.paused_until and self.paused_until.isoformat()
        return {
            "is": said, **asdict(self), "paused_at": self.paused_at.isoformat(),
            "paused_until": until,
        }  # fmt: skip

    @classmethod
    def told(cls, facts: Mapping[str, Any]) -> Pause:
        """The pause such facts tell of."""
        if not facts.get("paused_at"):
            return RUNNING
        until = facts["paused_until"] and datetime.fromisoformat(facts["paused_until"])
        since = datetime.fromisoformat(facts["paused_at"])
        return cls(since, facts["paused_by"], facts["pause_reason"], until)


RUNNING = Pause()
ABSENT = {"row": None}
"""What a change says was there before, when it made a row."""


def pause_of(row: Pausable) -> Pause:
    """How a queue or a limit is paused, whether or not the pause has ended by itself."""
    if row.paused_at is None:
        return RUNNING
    return Pause(row.paused_at, row.paused_by, row.pause_reason, row.paused_until)


def field_values(row: Any, figures: Iterable[str]) -> dict[str, Any]:
    return {figure: getattr(row, figure) for figure in figures}


def edit_limit(name: str, by: Actor, **figures: Any) -> Limit:
    """Set figures of a limit (`max_running`, `rate`, `daily_budget`, …), making its row if need be;
    work waiting for room starts at once. A new row begins with the figures of the pattern its name went
    by so far. Raises `ValidationError` on impossible ones."""
    # The settings' own figures are written first: a later sync would take this row for one of theirs.
    limit_rows.sync()
    with transaction.atomic():
        limit = Limit.objects.select_for_update().filter(name=name).first() or new_limit(name)
        new, before = limit.pk is None, field_values(limit, figures)
        for field, value in figures.items():
            setattr(limit, field, value)
        limit.full_clean()
        limit.save()
        by.record("edit limit", name, *_audit_diff(limit, new, before, figures, LIMIT_FIELDS))
        wakeups.post(limits=[wakeups.EVERYTHING])
        transaction.on_commit(dispatch)
    return limit


def remove_limit(name: str, by: Actor) -> None:
    """Let a key go by its pattern again, or a pattern's keys without one; raises `BadInput` for a
    limit the settings state, which would be made again."""
    with transaction.atomic():
        limit = Limit.objects.select_for_update().filter(name=name).first()
        if limit is None:
            raise BadInput(f"the limit {name!r} has no row")
        if limit.from_settings:
            raise BadInput(f"the limit {name!r} is stated by the settings and stays: edit it")
        before = {**pause_of(limit).facts(), "row": field_values(limit, LIMIT_FIELDS)}
        by.record("remove limit", name, before, ABSENT)
        limit.delete()
        wakeups.post(limits=[wakeups.EVERYTHING])
        transaction.on_commit(dispatch)


def restore_limit(name: str, by: Actor, figures: Mapping[str, Any], pause: Pause) -> None:
    """Make the row of a limit again, with these figures and so paused. Raises `ValidationError` when
    there is one."""
    with transaction.atomic():
        limit = Limit(name=name, **figures, **asdict(pause))
        limit.full_clean()
        limit.save()
        after = {**pause.facts(), "row": field_values(limit, LIMIT_FIELDS)}
        by.record("restore limit", name, ABSENT, after)
        wakeups.post(limits=[wakeups.EVERYTHING])
        transaction.on_commit(dispatch)


def edit_queue(name: str, by: Actor, *, max_pending: int) -> Queue:
    """Set how many executions may wait in a queue (0: no cap). Raises `ValidationError` on what is
    no such number."""
    limit_rows.sync()
    with transaction.atomic():
        queue: Queue = Queue.objects.select_for_update().get(name=name)
        before = {"max_pending": queue.max_pending}
        queue.max_pending = max_pending
        queue.full_clean()
        queue.save()
        by.record("edit queue", name, before, {"max_pending": max_pending})
    return queue


def edit_policy(kind: str, phase: str, by: Actor, **figures: Any) -> RetryPolicy:
    """Set figures of a retry policy, making the row of this phase if need be (empty: every phase);
    the next failure goes by it. Raises `ValidationError` on impossible ones, and `BadInput` for a
    kind or a phase nobody knows."""
    retry_policies.check(kind, phase)
    # The table's own rows are written first: a later sync would take this row for one of its own.
    retry_policies.sync()
    with transaction.atomic():
        rows = RetryPolicy.objects.select_for_update()
        policy = rows.filter(kind=kind, phase=phase).first() or retry_policies.new_row(kind, phase)
        new, before = policy.pk is None, field_values(policy, figures)
        for field, value in figures.items():
            setattr(policy, field, value)
        policy.full_clean()
        policy.save()
        told = _audit_diff(policy, new, before, figures, retry_policies.POLICY_FIELDS)
        by.record("edit retry policy", str(policy), *told)
    return policy


def _audit_diff(
    row: Any, new: bool, before: Mapping[str, Any], after: Mapping[str, Any], all_figures: Any
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What a change says was before and after: the figures set, and of a new row all there are."""
    return (ABSENT, {**after, "row": field_values(row, all_figures)}) if new else (before, after)


def delete_policy(kind: str, phase: str, by: Actor) -> None:
    """Let a phase go by the policy for every phase again; raises `BadInput` for that one itself."""
    if not phase:
        raise BadInput(
            f"the policy of {kind} for every phase stays; edit it, or add one for a phase"
        )
    with transaction.atomic():
        rows = RetryPolicy.objects.select_for_update().filter(kind=kind, phase=phase)
        for policy in rows:
            before = field_values(policy, retry_policies.POLICY_FIELDS)
            by.record("delete retry policy", str(policy), before, ABSENT)
            policy.delete()


def _pausable(target: str) -> Sequence[Pausable]:
    """The rows a name a person gives stands for."""
    limit_rows.sync()
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
def set_pause(row: Pausable, by: Actor, pause: Pause) -> None:
    """Pause a queue or a limit so, or let it run (`RUNNING`), making its row if it had none."""
    new = row.pk is None
    if new:
        row.save()
    else:
        type(row)._default_manager.select_for_update().get(pk=row.pk)
        row.refresh_from_db()
    before, after = pause_of(row).facts(), pause.facts()
    if new:
        before, after = {**before, **ABSENT}, {**after, "row": field_values(row, LIMIT_FIELDS)}
    for column, value in asdict(pause).items():
        setattr(row, column, value)
    row.save(update_fields=list(asdict(pause)))
    wakeups.post(limits=[wakeups.EVERYTHING])
    by.record("pause" if pause.paused_at else "resume", str(row), before, after)
