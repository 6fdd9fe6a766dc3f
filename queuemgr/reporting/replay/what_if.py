"""Replays of this fleet's own attempts, with its limits as they are and with some of them changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Sum

from queuemgr.base.config import queue_settings
from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import all_phases
from queuemgr.models import Attempt, Limit, Worker
from queuemgr.reporting.replay import summary
from queuemgr.reporting.replay.recording import RecordedAttempt, Recording, recording
from queuemgr.reporting.replay.simulation import Fleet, replay
from queuemgr.reporting.replay.summary import Tally
from queuemgr.scheduling import snapshot
from queuemgr.scheduling.admission import FLEET, LimitRule, rule_for
from queuemgr.scheduling.claims import names_of, rule_name
from queuemgr.scheduling.limit_input import parse_limit_field, validate
from queuemgr.scheduling.limit_rows import new_limit
from queuemgr.scheduling.limit_rules import read_rules, rule_from

Changes = Mapping[str, Mapping[str, Any]]
"""Values of fields, by the name of their limit."""


@dataclass(frozen=True)
class Compared:
    """What was recorded, its replay with the limits as they are, and with the changes, if any."""

    slots: int
    recorded: Tally
    as_is: Tally
    changed: Tally | None = None


def compare(
    since: datetime, until: datetime | None, changes: Sequence[str] = (), slots: int | None = None
) -> Compared:
    """Replay the attempts leased after `since` and ended before `until`, without and with changes.

    `changes` are written `LIMIT.FIELD=VALUE`. Raises `BadInput` for one that is not valid, and when
    nothing was recorded in that time.
    """
    now = database_now()
    recorded = recording(_attempts(since, until), since)
    if not recorded.pieces:
        end = f" and {until:%Y-%m-%d %H:%M} UTC" if until else " and now"
        raise BadInput(f"nothing was recorded between {since:%Y-%m-%d %H:%M} UTC{end}")
    rules = _current_rules(now)
    parsed = parse_changes(changes, {name for p in recorded.pieces for name in _names(p.attempt)})
    slots = slots or max(recorded.max_running, _live_slots(now))
    zone = rule_for(rules, FLEET).budget_zone
    with_changes = {**rules, **_changed_rules(parsed, now)}
    return Compared(
        slots,
        summary.of_record(recorded, zone),
        _replayed(recorded, rules, slots, zone),
        _replayed(recorded, with_changes, slots, zone) if parsed else None,
    )


def _replayed(recorded: Recording, rules: Mapping[str, LimitRule], slots: int, zone: str) -> Tally:
    fleet = Fleet(
        slots=slots,
        rules=rules,
        policy=snapshot.policy_in_force(),
        phase_ranks={name: phase.rank for name, phase in all_phases().items()},
        retry_percent=queue_settings().retry_percent,
    )
    return summary.of_replay(recorded, replay(recorded, fleet), zone)


_COLUMNS = (
    "execution_id", "phase", "step", "priority", "limit_keys", "tokens", "weight", "cost", "retrying",
    "outcome", "due_at", "leased_at", "started_at", "ended_at",
)  # fmt: skip


def _attempts(since: datetime, until: datetime | None) -> Iterable[RecordedAttempt]:
    rows = Attempt.objects.filter(ended_at__gte=since, leased_at__gte=since)
    if until:
        rows = rows.filter(ended_at__lte=until)
    for row in rows.values(*_COLUMNS).iterator(chunk_size=2000):
        leased_at, execution = row.pop("leased_at"), row.pop("execution_id")
        due_at = row.pop("due_at") or leased_at
        yield RecordedAttempt(execution=execution, due_at=due_at, **row)


def _names(attempt: RecordedAttempt) -> tuple[str, ...]:
    return names_of(attempt.phase, attempt.limit_keys, attempt.tokens)


def _live_slots(now: datetime) -> int:
    alive = Worker.objects.filter(seen_at__gt=snapshot.live_since(now), draining_at=None)
    return alive.aggregate(slots=Sum("slots"))["slots"] or 0


def _current_rules(now: datetime) -> dict[str, LimitRule]:
    """The current rules, without pauses: one made since would stop the whole replay."""
    rules = read_rules(now)
    return {name: replace(r, paused="", paused_until=None) for name, r in rules.items()}


def parse_changes(texts: Sequence[str], used: Iterable[str]) -> Changes:
    """Parse changes as people write them; `used` are the limits the recorded attempts passed."""
    changes: dict[str, dict[str, Any]] = {}
    for text in texts:
        where, equals, value = text.partition("=")
        name, dot, field = where.rpartition(".")
        if not (equals and dot and name):
            raise BadInput(f"{text!r} is not a change; write LIMIT.FIELD=VALUE, as fleet.daily_budget=500")
        _check_known(name, used)
        changes.setdefault(name, {})[field] = parse_limit_field(name, field, value)
    return changes


def _check_known(name: str, used: Iterable[str]) -> None:
    rows = list(Limit.objects.values_list("name", flat=True))
    if name not in used and rule_name(name, rows) is None:
        raise BadInput(f"no limit is called {name!r}; there are: {', '.join(rows)}")


def _changed_rules(changes: Changes, now: datetime) -> dict[str, LimitRule]:
    """The rules of the changed limits, as `controls.edit_limit` would make them."""
    return {name: _rule_with(name, values, now) for name, values in changes.items()}


def _rule_with(name: str, values: Mapping[str, Any], now: datetime) -> LimitRule:
    limit = Limit.objects.filter(name=name).first() or new_limit(name)
    for field, value in values.items():
        setattr(limit, field, value)
    validate(limit)
    return replace(rule_from(now, limit), paused="", paused_until=None)
