"""What a person does to limits, queues and retry policies; the admin, the commands and the API call these.

Every function takes `by`: who acts, through what, and why, for the audit log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Q

from queuemgr.base import transaction
from queuemgr.base.after_commit import after_commit
from queuemgr.base.column_sizes import LONGEST_ACTOR
from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import clean
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import all_phases
from queuemgr.flows.payload_validation import MAX_KEY, check_text
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import check_horizon
from queuemgr.models import (
    LIMIT_FIELDS,
    SHORT_OR_LONG,
    AuditEntry,
    Execution,
    Limit,
    LimitState,
    Pausable,
    Queue,
    RetryPolicy,
    pause_sentence,
)
from queuemgr.operations import limit_names
from queuemgr.scheduling import breakers, claims, limit_rows, provider_limits, retry_policies, wakeups
from queuemgr.scheduling.claims import FLEET
from queuemgr.scheduling.limit_rows import new_limit

ROWS_AT_A_TIME = 500

REASON_CHARACTERS = 200
"""A longer reason is cut in the audit log."""

COMMAND = "command"
"""The source of what is done by command, on a machine with access to the database."""

Describe = Callable[[Execution], dict[str, str]]


@dataclass(frozen=True)
class Actor:
    """Who acts, through what (admin, command, api), and why; the audit entry this undoes, if any; and the
    key of the account and the API token of whoever acts through a request."""

    actor: str
    source: str
    reason: str = ""
    undoes: int | None = None
    user_id: Any = None
    token_id: int | None = None

    def __post_init__(self) -> None:
        """Names and reasons come from outside: make them such as rows can hold."""
        for field, most in (("actor", LONGEST_ACTOR), ("source", 32), ("reason", None)):
            object.__setattr__(self, field, clean(str(getattr(self, field)))[:most])

    def record(
        self, action: str, target: str, before: Any = None, after: Any = None, affected: int = 1,
        bulk_action: int | None = None,
    ) -> None:  # fmt: skip
        entry = self._entry(action, target, before, after)
        entry.affected, entry.action_id = affected, bulk_action
        entry.save()

    def record_each(
        self, action: str, executions: Iterable[Execution], before: Describe, after: Describe
    ) -> None:
        """One entry per execution, inserted together."""
        AuditEntry.objects.bulk_create(self._entry(action, str(e), before(e), after(e)) for e in executions)

    def _entry(self, action: str, target: str, before: Any, after: Any) -> AuditEntry:
        return AuditEntry(
            actor=self.actor,
            source=self.source,
            reason=self.reason[:REASON_CHARACTERS],
            action=action,
            target=clean(target)[:300],
            before=before or {},
            after=after or {},
            undoes_id=self.undoes,
        )


def pause(target: str, by: Actor, until: datetime | None = None, *, new: bool = False) -> None:
    """Stop starts through a queue (`print.high`), a limit (`host:…`), a phase or `everything`.

    What runs continues. Raises `UnknownLimit` when there is no such thing to pause, nor a flow whose work
    may come to it; with `new`, only when no work could.
    """
    if until is not None:
        check_horizon("until", until)
    set_pause(_pausable(target, new=new), by, Pause(database_now(), by.actor, by.reason[:200], until))


def resume(target: str, by: Actor) -> None:
    """Undo a pause, close the limit's breaker, and forget what its provider said is left.

    Raises `BadInput` for an unknown name, and for a key without a row whose breaker is closed: it may be
    mistyped.
    """
    row = _pausable(target, new=":" in target)
    known = row.pk is not None
    if known:
        set_pause(row, by, NOT_PAUSED)
    if not _reset_breakers([str(row)], by) and not known:
        raise BadInput(f"{target!r} is not paused and its breaker is closed; see `queue limits`")
    after_commit(dispatch)


def reset_breakers(names: Iterable[str], by: Actor) -> list[str]:
    """Close the breakers of these limits at once and forget what their providers said is left; a pattern
    stands for every key it applies to. Returns those of which there was anything."""
    chosen = set(names)
    owner = claims.rule_resolver(Limit.objects.values_list("name", flat=True))
    holds = Q(open_until__isnull=False) | Q(half_open_starts__gt=0) | ~Q(provider_left="")
    candidates = LimitState.objects.filter(holds).order_by("name").values_list("name", flat=True)
    reset = _reset_breakers([name for name in candidates if name in chosen or owner(name) in chosen], by)
    after_commit(dispatch)
    return reset


@transaction.atomic
def _reset_breakers(names: Sequence[str], by: Actor) -> list[str]:
    now, reset, said = database_now(), list[str](), dict[str, str]()
    for start in range(0, len(names), ROWS_AT_A_TIME):
        some = names[start : start + ROWS_AT_A_TIME]
        closed = LimitState.objects.filter(name__in=some, open_until__isnull=True, half_open_starts=0)
        said |= dict(closed.exclude(provider_left="").values_list("name", "provider_left"))
        reset += breakers.reset(some)
    for name in reset:
        was, then = ("breaker open", "breaker closed")
        if name in said:
            was, then = (
                provider_limits.sentence(said[name], now) or "nothing left by the provider",
                "forgotten",
            )
        by.record("reset breaker", name, {"is": was}, {"is": then})
    wakeups.post(limits=reset)
    return reset


@dataclass(frozen=True)
class Pause:
    """Since when something is paused, by whom, why, and until when; not paused: `NOT_PAUSED`."""

    paused_at: datetime | None = None
    paused_by: str = ""
    pause_reason: str = ""
    paused_until: datetime | None = None

    def serialize(self) -> dict[str, Any]:
        """A sentence for people, and what is needed to restore it."""
        if self.paused_at is None:
            return {"is": "running"}
        sentence = pause_sentence(self.paused_by, self.pause_reason, self.paused_until)
        until = self.paused_until and self.paused_until.isoformat()
        since = self.paused_at.isoformat()
        return {"is": sentence, **asdict(self), "paused_at": since, "paused_until": until}

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Pause:
        """The pause that `serialize` gave these values for."""
        if not values.get("paused_at"):
            return NOT_PAUSED
        until = values["paused_until"] and datetime.fromisoformat(values["paused_until"])
        since = datetime.fromisoformat(values["paused_at"])
        return cls(since, values["paused_by"], values["pause_reason"], until)


NOT_PAUSED = Pause()
ABSENT = {"row": None}
"""The `before` of an audit entry that made a row, and the `after` of one that removed it."""


def pause_of(row: Pausable) -> Pause:
    """How a queue or a limit is paused, also where the pause has expired."""
    if row.paused_at is None:
        return NOT_PAUSED
    return Pause(row.paused_at, row.paused_by, row.pause_reason, row.paused_until)


def field_values(row: Any, fields: Iterable[str]) -> dict[str, Any]:
    return {field: getattr(row, field) for field in fields}


def _edit(row: Any, values: Mapping[str, Any], all_fields: Iterable[str], action: str, by: Actor) -> None:
    """Save these values and record them; of a new row, all its fields. Raises `ValidationError`."""
    new, before = row.pk is None, field_values(row, values)
    for field, value in values.items():
        setattr(row, field, value)
    row.full_clean()
    row.save()
    made = {"row": field_values(row, all_fields)} if new else {}
    by.record(action, str(row), ABSENT if new else before, {**values, **made})


def _reconsider_all() -> None:
    """Unpark all routes and dispatch on commit: a limit has changed."""
    wakeups.post(limits=[wakeups.EVERYTHING])
    after_commit(dispatch)


def edit_limit(name: str, by: Actor, *, new: bool = False, **values: Any) -> Limit:
    """Set fields of a limit (`max_running`, `rate`, `daily_budget`, …), making its row if there is none,
    with the values of the pattern that applied so far; what may start now is dispatched on commit. Raises
    `ValidationError` for invalid values, and `UnknownLimit` for a name that no flow uses; with `new`, only
    for one that no work could run under."""
    # The limits of the settings are written first: a later sync would take this row for one of them.
    limit_names.limit_to_edit(name, new=new)
    if refused := limit_names.refused(name, values):
        raise ValidationError(dict(refused))
    return set_limit(name, by, **values)


@transaction.atomic
def set_limit(name: str, by: Actor, **values: Any) -> Limit:
    """As `edit_limit`, once `limit_rows.ensure` was called: it calls no code of applications."""
    limit = Limit.objects.select_for_update().filter(name=name).first() or new_limit(name)
    limit.pause_only = False
    _edit(limit, values, LIMIT_FIELDS, "edit limit", by)
    if SHORT_OR_LONG & values.keys():
        limit.validate_said_once()
    limit_rows.follow_patterns()
    _reconsider_all()
    return limit


def remove_limit(name: str, by: Actor) -> None:
    """Remove the row of a limit, so that its pattern applies again; raises `BadInput` for a limit that the
    settings or a flow state, which would be made again."""
    check_text("limit", name, MAX_KEY)
    delete_limit(name, by, is_stated=limit_rows.is_stated(name))


@transaction.atomic
def delete_limit(name: str, by: Actor, *, is_stated: bool) -> None:
    """As `remove_limit`, of what `limit_rows.is_stated` said before: it calls no code of applications."""
    limit = Limit.objects.select_for_update().filter(name=name).first()
    if limit is None:
        raise BadInput(f"the limit {name!r} has no row")
    if is_stated:
        raise BadInput(f"the limit {name!r} is stated by the settings or a flow and stays: edit it")
    before = {**pause_of(limit).serialize(), "row": field_values(limit, LIMIT_FIELDS)}
    by.record("remove limit", name, before, ABSENT)
    limit.delete()
    limit_rows.follow_patterns()
    _reconsider_all()


@transaction.atomic
def restore_limit(name: str, by: Actor, values: Mapping[str, Any], pause: Pause) -> None:
    """Make the row of a removed limit again. Raises `ValidationError` when there is one."""
    limit = Limit(name=name, **values, **asdict(pause))
    limit.full_clean()
    limit.save()
    limit_rows.follow_patterns()
    after = {**pause.serialize(), "row": field_values(limit, LIMIT_FIELDS)}
    by.record("restore limit", name, ABSENT, after)
    _reconsider_all()


def edit_queue(name: str, by: Actor, *, max_pending: int) -> Queue:
    """Set how many executions may wait in a queue (0: no cap). Raises `ValidationError` for an invalid
    number."""
    limit_rows.ensure()
    return set_queue(name, by, max_pending=max_pending)


@transaction.atomic
def set_queue(name: str, by: Actor, *, max_pending: int) -> Queue:
    """As `edit_queue`, once `limit_rows.ensure` was called: it calls no code of applications."""
    queue: Queue = Queue.objects.select_for_update().get(name=name)
    _edit(queue, {"max_pending": max_pending}, (), "edit queue", by)
    return queue


def edit_policy(kind: str, phase: str, by: Actor, **values: Any) -> RetryPolicy:
    """Set fields of a retry policy, making the row of this phase if there is none (empty: every phase).
    Raises `ValidationError` for invalid values, and `BadInput` for an unknown kind or phase."""
    retry_policies.check(kind, phase)
    # The default rows are written first: a later sync would take this row for one of them.
    retry_policies.make_missing()
    with transaction.atomic():
        rows = RetryPolicy.objects.select_for_update()
        policy = rows.filter(kind=kind, phase=phase).first() or retry_policies.new_row(kind, phase)
        _edit(policy, values, retry_policies.POLICY_FIELDS, "edit retry policy", by)
    return policy


@transaction.atomic
def delete_policy(kind: str, phase: str, by: Actor) -> None:
    """Delete the retry policy of one phase, so that the one for every phase applies; raises `BadInput` for
    that one itself."""
    if not phase:
        raise BadInput(f"the policy of {kind} for every phase stays; edit it, or add one for a phase")
    for policy in RetryPolicy.objects.select_for_update().filter(kind=kind, phase=phase):
        before = field_values(policy, retry_policies.POLICY_FIELDS)
        by.record("delete retry policy", str(policy), before, ABSENT)
        policy.delete()


def _pausable(target: str, *, new: bool) -> Pausable:
    """The row that a name given by a person means; a limit without a row gets an unsaved one."""
    check_text("the name", target, MAX_KEY)
    limit_rows.ensure()
    name = FLEET if target in ("everything", "all") else target
    row = Queue.objects.filter(name=name).first()
    row = row or Limit.objects.filter(name__in=(name, f"phase:{name}")).first()
    queues = ["everything", *all_phases(), *Queue.objects.values_list("name", flat=True)]
    return row or limit_names.limit_to_edit(name, new=new, also=queues)


@transaction.atomic
def set_pause(row: Pausable, by: Actor, pause: Pause) -> None:
    """Pause a queue or a limit, or resume it (`NOT_PAUSED`).

    A limit without a row gets one for as long as it is paused; its values stay those of its pattern.
    """
    if row.pk is None and isinstance(row, Limit):
        row.pause_only = True
        row.save()
    else:
        type(row)._default_manager.select_for_update().get(pk=row.pk)
        row.refresh_from_db()
    name, before, after = str(row), pause_of(row).serialize(), pause.serialize()
    for column, value in asdict(pause).items():
        setattr(row, column, value)
    row.save(update_fields=list(asdict(pause)))
    if isinstance(row, Limit) and row.pause_only and pause == NOT_PAUSED:
        row.delete()
    wakeups.post(limits=[wakeups.EVERYTHING])
    by.record("pause" if pause.paused_at else "resume", name, before, after)
