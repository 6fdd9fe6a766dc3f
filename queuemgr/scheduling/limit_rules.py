"""Reading limits and queues: the rules people set, their rate clocks and breakers, what is paused or quiet.

Every decision reads them, so whatever belongs to a name comes in one statement. A key may have a rule
of its own, a state, both, or neither (then the rule of its pattern holds).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from queuemgr.base import sql
from queuemgr.base.budget_day import day_ends
from queuemgr.base.config import queue_settings
from queuemgr.base.rate import parse_rate
from queuemgr.models import pause_sentence
from queuemgr.scheduling.admission import GLOBAL_VIRTUAL_TIME, BreakerState, LimitRule, Reason
from queuemgr.scheduling.claims import FLEET, TENANT

_PAUSE = ("paused_at", "paused_by", "pause_reason", "paused_until")
_RULE = (
    "max_running", "reserved_high", "rate", "daily_budget", "budget_zone", "reserved_for_high_percent",
    "blocked_for_low_percent", "share", "breaker_after", *_PAUSE,
)  # fmt: skip
_STATE = ("rate_clock", "open_until", "open_reason", "half_open_starts", "virtual_time")


def _columns(table: str, columns: Sequence[str]) -> str:
    return ", ".join(f"{table}.{column}" for column in columns)


def _nulls(columns: Sequence[str]) -> str:
    return ", ".join(["NULL"] * len(columns))


def _quiet(resumed: str) -> str:
    """1 where every route of a queue, for resumed or for new work, is parked, else 0."""
    return (
        "CASE WHEN EXISTS (SELECT 1 FROM queuemgr_route r WHERE r.phase = q.phase "
        f"AND r.priority = q.priority AND r.resumed = {resumed} AND r.parked_on = '') THEN 0 ELSE 1 END"
    )


_NO_QUEUE = "CAST(NULL AS integer), CAST(NULL AS integer)"


_RULES = f"""
    SELECT l.name, {_columns("l", _RULE)} FROM queuemgr_limit l WHERE {{of_these}}
"""

_NAMED = f"""
    WITH named(name) AS (VALUES {{names}})
    SELECT n.name, {_columns("l", _RULE)}, {_columns("g", _STATE)}
      FROM named n
      LEFT JOIN queuemgr_limit l ON l.name = n.name
      LEFT JOIN queuemgr_gate g ON g.name = n.name
"""

_STANDING = f"""
    SELECT l.name, {_columns("l", _RULE)}, {_columns("g", _STATE)}, {_NO_QUEUE}
      FROM queuemgr_limit l LEFT JOIN queuemgr_gate g ON g.name = l.name
     WHERE {{limits}}
    UNION ALL
    SELECT g.name, {_nulls(_RULE)}, {_columns("g", _STATE)}, {_NO_QUEUE}
      FROM queuemgr_gate g
     WHERE {{states}} AND NOT EXISTS (SELECT 1 FROM queuemgr_limit l WHERE l.name = g.name)
    UNION ALL
    SELECT q.name, {_nulls(_RULE[: -len(_PAUSE)])}, {_columns("q", _PAUSE)}, {_nulls(_STATE)},
           {_quiet("TRUE")}, {_quiet("FALSE")}
      FROM queuemgr_queue q
"""

_ALL = {"limits": "1 = 1", "states": "1 = 1"}
_COMMON = {
    "limits": "(l.name NOT LIKE '%%:%%' OR l.name LIKE 'phase:%%' OR l.name LIKE '%%*')",
    "states": "(g.name NOT LIKE '%%:%%' OR g.name LIKE 'phase:%%')",
}
"""What every decision looks at: fleet, phases, tokens, and the rules of all patterns."""


@dataclass(frozen=True)
class LimitStates:
    """Rules, breaker states and virtual times of tenants, by name; the paused queues; and those on which
    every route is parked, for resumed work (True) or for new."""

    rules: dict[str, LimitRule] = field(default_factory=dict)
    breaker_states: dict[str, BreakerState] = field(default_factory=dict)
    virtual_times: dict[str, float] = field(default_factory=dict)
    paused_queues: dict[str, Reason] = field(default_factory=dict)
    quiet: frozenset[tuple[str, bool]] = frozenset()


def read_limit_states(now: datetime, *, keys: bool) -> LimitStates:
    """What everything passes, and the queues; with the limits of every key if asked for."""
    found = sql.rows(_STANDING.format(**(_ALL if keys else _COMMON)))
    quiet = {
        (name, resumed)
        for name, *_, none_resumed, none_new in found
        for resumed, none in ((True, none_resumed), (False, none_new))
        if none
    }
    limits = _limit_states(now, (row[:-2] for row in found))
    return replace(limits, quiet=frozenset(quiet))


def limit_states_of(names: Collection[str], now: datetime) -> LimitStates:
    """What stands under these names themselves, without the rules of patterns."""
    if not names:
        return LimitStates()
    each = ", ".join(["(%s)"] * len(names))
    return _limit_states(now, sql.rows(_NAMED.format(names=each), list(names)))


def read_rules(now: datetime) -> dict[str, LimitRule]:
    """Every limit's rule as it stands at `now`."""
    return _rules(now, "1 = 1")


def rules_of(names: Collection[str], now: datetime) -> dict[str, LimitRule]:
    """The rules these names go by: their own, and the patterns."""
    of_these = f"l.name IN ({sql.marks(len(names))}) OR l.name LIKE '%%*'"
    return _rules(now, of_these, list(names))


def _rules(now: datetime, of_these: str, parameters: Sequence[str] = ()) -> dict[str, LimitRule]:
    found = sql.rows(_RULES.format(of_these=of_these), parameters)
    return _in_force({name: rule_from(now, *row) for name, *row in found})


def _limit_states(now: datetime, found: Iterable[tuple[Any, ...]]) -> LimitStates:
    states = LimitStates()
    for name, *row in found:
        rule, state = row[: len(_RULE)], row[len(_RULE) :]
        if rule[0] is not None:
            states.rules[name] = rule_from(now, *rule)
        elif rule[-len(_PAUSE)] is not None:
            _add_paused(states, name, now, rule[-len(_PAUSE) :])
        if state[0] is not None:
            _add_breaker_state(states, name, *state)
    return LimitStates(
        _in_force(states.rules),
        states.breaker_states,
        states.virtual_times,
        states.paused_queues,
    )


def _add_paused(states: LimitStates, queue: str, now: datetime, pause: Sequence[Any]) -> None:
    sentence, until = _pause(now, *pause)
    if sentence:
        states.paused_queues[queue] = Reason(queue, f"{queue} {sentence}", until, "paused")


def _add_breaker_state(
    states: LimitStates, name: str, rate_clock: float, open_until: Any, reason: str, half_open: int,
    virtual_time: float,
) -> None:  # fmt: skip
    until = sql.as_datetime(open_until) if open_until else None
    states.breaker_states[name] = BreakerState(rate_clock, until, reason, half_open)
    if name == GLOBAL_VIRTUAL_TIME or name.startswith(TENANT):
        states.virtual_times[name] = virtual_time


def _in_force(rules: dict[str, LimitRule]) -> dict[str, LimitRule]:
    """Without the scheduler only keys and the fleet's own limit hold."""
    if queue_settings().scheduler:
        return rules
    return {name: rule for name, rule in rules.items() if ":" in name or name == FLEET}


def rule_from(
    now: datetime, most: int, reserved: int, rate: str, budget: int | None, zone: str, high: int,
    low: int, share: int, breaker_after: int, *pause: Any,
) -> LimitRule:  # fmt: skip
    """The rule these figures make, those of a row of `Limit` in the order of `_RULE`."""
    zone = zone or queue_settings().budget_zone
    sentence, until = _pause(now, *pause)
    return LimitRule(
        max_running=most,
        reserved_high=reserved,
        rate=parse_rate(rate),
        daily_budget=budget,
        reserved_for_high_percent=share_of_budget(budget, high),
        blocked_for_low_percent=share_of_budget(budget, low),
        budget_zone=zone,
        day_ends=day_ends(now, zone) if budget is not None else None,
        share=share,
        breaker_after=breaker_after,
        paused=sentence,
        paused_until=until,
    )


SMALL_BUDGET = 100
"""Requests. A smaller budget is spent to its number: a share of it kept back would be a surprise."""


def share_of_budget(budget: int | None, percent: int) -> int:
    """Requests of a budget that are kept for better work, rounded down."""
    return budget * percent // 100 if budget and budget >= SMALL_BUDGET else 0


def _pause(now: datetime, at: Any, by: str, reason: str, until: Any) -> tuple[str, datetime | None]:
    """The sentence of a pause in force, and when it ends; empty when there is none."""
    ends = sql.as_datetime(until) if until else None
    if at is None or (ends is not None and ends <= now):
        return "", None
    return pause_sentence(by, reason, ends), ends
