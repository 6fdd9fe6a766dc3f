"""Replays of this fleet's own attempts, with its limits as they are and with some of them changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet, Sum
from django.db.models.functions import Coalesce

from queuemgr.base.config import queue_settings
from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Attempt, Limit, Worker
from queuemgr.reporting.replay import summary
from queuemgr.reporting.replay.recording import RecordedAttempt, Recording, recording
from queuemgr.reporting.replay.simulation import Fleet, replay
from queuemgr.reporting.replay.summary import Tally
from queuemgr.scheduling import snapshot
from queuemgr.scheduling.claims import FLEET, rule_name
from queuemgr.scheduling.decision_input import LimitRule, rule_for
from queuemgr.scheduling.limit_input import parse_limit_field, validate, with_allowance
from queuemgr.scheduling.limit_rows import new_limit
from queuemgr.scheduling.limit_rules import read_rules, rule_from


@dataclass(frozen=True)
class Compared:
    """What was recorded, its replay with the limits as they are, and with the changes, if any."""

    slots: int
    recorded: Tally
    as_is: Tally
    changed: Tally | None = None


def compare(
    since: datetime,
    until: datetime | None,
    changes: Sequence[str] = (),
    slots: int | None = None,
    most: int | None = None,
) -> Compared:
    """Replay the attempts leased after `since` and ended before `until`, without and with changes.

    `changes` are written `LIMIT.FIELD=VALUE`, of one allowance `LIMIT.usd/day=AMOUNT`. Raises `BadInput` for
    one that is not valid, and when nothing was recorded in that time, or more than `most` attempts.
    """
    now = database_now()
    rows = _rows(since, until)
    if most is not None and rows[most : most + 1].exists():
        raise BadInput(
            f"more than {most:,} attempts were recorded in that time; choose a shorter one, or `queue replay`"
        )
    recorded = recording(_attempts(rows), since)
    if not recorded.pieces:
        end = f" and {until:%Y-%m-%d %H:%M} UTC" if until else " and now"
        raise BadInput(f"nothing was recorded between {since:%Y-%m-%d %H:%M} UTC{end}")
    pauses = {*Limit.objects.filter(pause_only=True).values_list("name", flat=True)}
    # Those follow their patterns, changed ones too.
    rules = {name: _unpaused(rule) for name, rule in read_rules(now).items() if name not in pauses}
    parsed = parse_changes(changes, {name for p in recorded.pieces for name, _ in p.kind.claims})
    live_slots = Worker.objects.available(now).aggregate(slots=Sum("slots"))["slots"] or 0
    slots = slots or max(recorded.max_running, live_slots)
    zone = rule_for(rules, FLEET).budget_zone
    changed = {name: rule_with(name, values, now) for name, values in parsed.items()}
    return Compared(
        slots,
        summary.tally(recorded, zone),
        _replayed(recorded, rules, slots, zone),
        _replayed(recorded, {**rules, **changed}, slots, zone) if changed else None,
    )


def _replayed(recorded: Recording, rules: Mapping[str, LimitRule], slots: int, zone: str) -> Tally:
    fleet = Fleet(slots, rules, snapshot.policy_in_force(), queue_settings().retry_percent)
    return summary.tally(recorded, zone, replay(recorded, fleet))


def _rows(since: datetime, until: datetime | None) -> QuerySet[Attempt]:
    rows = Attempt.objects.filter(ended_at__gte=since, leased_at__gte=since)
    return rows.filter(ended_at__lte=until) if until else rows


def _attempts(rows: QuerySet[Attempt]) -> Iterable[RecordedAttempt]:
    waited_since = Coalesce("due_at", "leased_at")
    columns = [waited_since if name == "due_at" else name for name in RecordedAttempt._fields]
    return map(RecordedAttempt._make, rows.values_list(*columns).iterator(chunk_size=2000))


def _unpaused(rule: LimitRule) -> LimitRule:
    """Without its pause: one made since would stop the whole replay."""
    return replace(rule, paused="", paused_until=None)


def parse_changes(texts: Sequence[str], used: Collection[str]) -> dict[str, dict[str, Any]]:
    """The changed fields by limit, of changes as people write them; `used` are the limits the recorded
    attempts passed."""
    changes: dict[str, dict[str, Any]] = {}
    rows = list(Limit.objects.values_list("name", flat=True))
    for text in texts:
        where, equals, value = text.partition("=")
        name, dot, field = where.rpartition(".")
        if not (equals and dot and name):
            raise BadInput(f"{text!r} is not a change; write LIMIT.FIELD=VALUE, as fleet.daily_budget=500")
        if name not in used and rule_name(name, rows) is None:
            raise BadInput(f"no limit is called {name!r}; there are: {', '.join(rows)}")
        of_it = changes.setdefault(name, {})
        if "/" in field:
            stated = of_it.get("allowances", _limit(name).allowances)
            field, value = "allowances", with_allowance(stated, field, value)
        of_it[field] = parse_limit_field(name, field, value)
    return changes


def _limit(name: str) -> Limit:
    """Its row, or the one it would have with an edit."""
    return Limit.objects.filter(name=name).first() or new_limit(name)


def rule_with(name: str, values: Mapping[str, Any], now: datetime) -> LimitRule:
    """The rule of a changed limit, as `controls.edit_limit` would make it."""
    limit = _limit(name)
    validate(limit, values)
    return _unpaused(rule_from(now, limit))
