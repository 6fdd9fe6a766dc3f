"""Reads limits and queues: the rules people set, breakers, what is paused or fully parked.

Every decision reads them, so all there is under a name comes in one statement. A key may have a rule
of its own, a state, both, or neither (then the rule of its pattern holds).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, cast, get_type_hints

from queuemgr.base import limit_shorthand, sql, sql_lists
from queuemgr.base.allowance import Allowance
from queuemgr.base.config import queue_settings
from queuemgr.models import LIMIT_FIELDS, Limit, RouteLimit, pause_sentence
from queuemgr.scheduling.claims import FLEET, TENANT
from queuemgr.scheduling.decision_input import GLOBAL_VIRTUAL_TIME, BreakerState, LimitRule, Reason


class _Beside(NamedTuple):
    """A row of limit, state and queue joined by name, but for the fields of the limit that `LimitRow` has
    before these. The columns of absent parts are None, whatever their type says: without a limit `id`,
    without a state `half_open_starts`."""

    name: str
    id: int | None
    paused_at: datetime | None
    paused_by: str
    pause_reason: str
    paused_until: datetime | None
    open_until: datetime | None
    open_reason: str
    half_open_starts: int
    virtual_time: float
    provider_left: str
    parked_resumed: bool | None
    parked_new: bool | None


DECIDES = tuple(name for name, field in LIMIT_FIELDS.items() if field.decides)
"""The fields of a limit that decisions look at."""

if TYPE_CHECKING:
    LimitRow = _Beside  # as which a checker knows it
else:
    LimitRow = NamedTuple(
        "LimitRow", [*((name, object) for name in DECIDES), *get_type_hints(_Beside).items()]
    )

_PAUSE = ("paused_at", "paused_by", "pause_reason", "paused_until")
_STATE = ("open_until", "open_reason", "half_open_starts", "virtual_time", "provider_left")
_PARKED = ("parked_resumed", "parked_new")


def _columns(name: str, *, rule: str = "", pause: str = "", state: str = "") -> str:
    """The columns of `LimitRow`, from the tables with these aliases; NULL where there is none."""
    aliases = {**dict.fromkeys(LimitRow._fields, rule), "name": name}
    aliases |= {**dict.fromkeys(_PAUSE, pause), **dict.fromkeys(_STATE, state)}
    columns = [f"{alias}.{column}" if alias else "NULL" for column, alias in aliases.items()]
    parked = [_parked("TRUE"), _parked("FALSE")] if name == "q" else ["CAST(NULL AS integer)"] * 2
    return ", ".join([*columns[: -len(_PARKED)], *parked])


def _parked(resumed: str) -> str:
    """1 if all routes of the queue (resumed or new) are parked: asked in the order of an index, as otherwise
    all routes would be read."""
    return (
        "CASE WHEN (SELECT 1 FROM queuemgr_route r WHERE r.phase = q.phase AND r.priority = q.priority "
        f"AND r.resumed = {resumed} AND r.parked_on = '' ORDER BY r.served_at LIMIT 1) IS NULL "
        "THEN 1 ELSE 0 END"
    )


_RULES = f"""
    SELECT {_columns("l", rule="l", pause="l")} FROM queuemgr_limit l WHERE {{of_these}}
"""

_NAMED = f"""
    WITH named(name) AS ({{names}})
    SELECT {_columns("n", rule="l", pause="l", state="g")}
      FROM named n
      LEFT JOIN queuemgr_limit l ON l.name = n.name
      LEFT JOIN queuemgr_gate g ON g.name = n.name
"""

_ALL_STATES = f"""
    SELECT {_columns("l", rule="l", pause="l", state="g")}
      FROM queuemgr_limit l LEFT JOIN queuemgr_gate g ON g.name = l.name
     WHERE {{limits}}
    UNION ALL
    SELECT {_columns("g", state="g")} FROM queuemgr_gate g
     WHERE {{states}} AND NOT EXISTS (SELECT 1 FROM queuemgr_limit l WHERE l.name = g.name)
    UNION ALL
    SELECT {_columns("q", pause="q")} FROM queuemgr_queue q
"""

_ALL = {"limits": "1 = 1", "states": "1 = 1"}
_COMMON = {
    "limits": "(l.name NOT LIKE '%%:%%' OR l.name LIKE 'phase:%%' OR l.name LIKE '%%*')",
    "states": "(g.name NOT LIKE '%%:%%' OR g.name LIKE 'phase:%%')",
}
"""What every decision reads: fleet, phases, resources, and the rules of all patterns."""


@dataclass(frozen=True)
class LimitStates:
    """Rules, breaker states and virtual times of tenants, by name; the paused queues; and the queues on
    which every route is parked, for resumed work (True) or for new."""

    rules: dict[str, LimitRule] = field(default_factory=dict)
    breaker_states: dict[str, BreakerState] = field(default_factory=dict)
    virtual_times: dict[str, float] = field(default_factory=dict)
    paused_queues: dict[str, Reason] = field(default_factory=dict)
    fully_parked: frozenset[tuple[str, bool]] = frozenset()


def read_limit_states(now: datetime, *, keys: bool) -> LimitStates:
    """The limits every start passes, and the queues; with the limits of every key if asked for."""
    statement = _ALL_STATES.format(**(_ALL if keys else _COMMON))
    return _limit_states(now, sql.rows(LimitRow, statement))


def limit_states_of(names: Collection[str], now: datetime) -> LimitStates:
    """The limits with these very names, without the patterns that match them."""
    if not names:
        return LimitStates()
    listed = sql_lists.table(["text"], [(name,) for name in names])
    return _limit_states(now, sql.rows(LimitRow, _NAMED.format(names=listed.text), listed.values))


def read_rules(now: datetime) -> dict[str, LimitRule]:
    return _limit_states(now, sql.rows(LimitRow, _RULES.format(of_these="1 = 1"))).rules


def rules_of(names: Collection[str], now: datetime) -> dict[str, LimitRule]:
    """The rules that apply to these names: their own, and the patterns."""
    among = sql_lists.among("text", names)
    statement = _RULES.format(of_these=f"l.name {among.text} OR l.name LIKE '%%*'")
    return _limit_states(now, sql.rows(LimitRow, statement, among.values)).rules


def _limit_states(now: datetime, rows: Sequence[LimitRow]) -> LimitStates:
    rules = {row.name: rule_from(now, cast("Limit", row)) for row in rows if row.id is not None}
    states = [row for row in rows if row.half_open_starts is not None]
    paused = {row.name: _pause(now, row) for row in rows if row.id is None}
    if not queue_settings().scheduler:  # without it all apply but those of resources
        rules = {name: rules[name] for name in _of_no_resource(rules)}
    return LimitStates(
        rules=rules,
        breaker_states={
            row.name: BreakerState(row.open_until, row.open_reason, row.half_open_starts, row.provider_left)
            for row in states
        },
        virtual_times={
            row.name: row.virtual_time
            for row in states
            if row.name == GLOBAL_VIRTUAL_TIME or row.name.startswith(TENANT)
        },
        paused_queues={
            name: Reason(name, f"{name} {sentence}", until, "paused")
            for name, (sentence, until) in paused.items()
            if sentence
        },
        fully_parked=frozenset(
            (row.name, resumed)
            for row in rows
            for resumed, parked in ((True, row.parked_resumed), (False, row.parked_new))
            if parked
        ),
    )


def _of_no_resource(names: Iterable[str]) -> set[str]:
    """Those that are keys of a route, among names that may be of a resource or a key."""
    either = [name for name in names if ":" not in name and name != FLEET]
    keys = RouteLimit.objects.filter(name__in=either).values_list("name", flat=True) if either else ()
    return {*names} - {*either} | {*keys}


_AS_SET = tuple(
    each.name for each in fields(LimitRule) if each.name in DECIDES and LIMIT_FIELDS[each.name].is_number
)
"""Fields that a rule has as they are set: the first ones of it."""
_as_set = attrgetter(*_AS_SET)
_rule: Callable[..., LimitRule] = LimitRule


def rule_from(now: datetime, limit: Limit) -> LimitRule:
    """The rule these values make at `now`: its pause if it is in force, rate and budget as allowances."""
    sentence, until = _pause(now, limit)
    return _rule(
        *_as_set(limit),
        budget_zone=limit.budget_zone or queue_settings().budget_zone,
        allowances=(*limit_shorthand.of_rate(limit.rate), *allowances_of(limit)),
        paused=sentence,
        paused_until=until,
    )


def allowances_of(limit: Limit) -> tuple[Allowance, ...]:
    """Those it states, and what its daily budget stands for."""
    high, low = limit.reserved_for_high_percent, limit.blocked_for_low_percent
    return limit_shorthand.with_budget(limit.allowances, limit.daily_budget, limit.budget_zone, high, low)


def _pause(now: datetime, row: LimitRow | Limit) -> tuple[str, datetime | None]:
    """The sentence of a pause in force, and when it ends; empty when there is none."""
    until = row.paused_until
    if row.paused_at is None or (until is not None and until <= now):
        return "", None
    return pause_sentence(row.paused_by, row.pause_reason, until), until
