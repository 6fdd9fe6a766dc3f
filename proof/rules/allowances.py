"""What is allowed of a meter in a period: by the calendar, in total, or rolling with a burst."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from proof.limit_values import LimitValues
from proof.records import Attempt, History
from proof.rules.spans import DECIDE_SECONDS, FREEZES, LOOK_SECONDS
from proof.rules.violation import Violation

FROZEN_SECONDS = 40.0
"""Seconds for which a process that is frozen may hold up what it has decided or ended."""

HELD_SECONDS = 2.0
"""Seconds by which a start under a rolling allowance may come early: a slot waits so long at most."""

KEPT_SECONDS = 86_400.0
"""What was spent in a minute is kept for so long at least."""

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
SCALES = {"usd": 10**6}
"""How many of the smallest parts of a meter make one, where it has any."""

PLACES = ("fleet", "a phase", "a key", "a pattern", "a tenant", "a batch")
_STATED = re.compile(
    r"(?P<amount>[\d,.]+) (?P<meter>\w+)(?:/(?P<period>\w+)| in total)(?: (?P<how>calendar|rolling))?"
    r"(?: burst (?P<burst>[\d,.]+))?(?: in (?P<zone>[^\s;]+))?"
)


def parts_of(meter: str, number: Decimal) -> int:
    """An amount in the smallest part of its meter."""
    return int((number * SCALES.get(meter, 1)).to_integral_value("ROUND_CEILING"))


class Kind(NamedTuple):
    """Of a limit, what distinguishes one of its allowances from the others."""

    limit: str
    meter: str
    period: str
    rolls: bool
    zone: str = "UTC"

    def begins(self, moment: float) -> str:
        """The period of a moment, by the fleet's clock."""
        if self.period == "total":
            return ""
        local = datetime.fromtimestamp(moment, ZoneInfo(self.zone))
        length = {"day": 10, "hour": 13, "minute": 16}.get(self.period, 19)
        return local.isoformat()[:length]


class Most(NamedTuple):
    amount: int
    burst: int


class Judged(NamedTuple):
    """A start: by how much it exceeds what is allowed (or falls short of it), and what it reserved. `place`:
    what kind of limit allows it."""

    kind: Kind
    place: str
    attempt: Attempt
    beyond: float

    @property
    def binds(self) -> bool:
        """Whether another like it would not have been allowed then."""
        return self.beyond + self.attempt.amount(self.kind.meter) > 0


def allowances_are_kept(history: History) -> Iterator[Violation]:
    """At no start is more reserved and spent than is allowed."""
    for each in judged(history):
        if each.beyond > 0:
            text = f"{each.attempt.key} brought {each.kind} {each.beyond:,.0f} beyond what is allowed"
            yield Violation("allowance", text)


def periods_add_up(history: History) -> Iterator[Violation]:
    """What is spent in a period by the database is what its attempts used, each counted once. What was spent
    in a minute or second of days ago is deleted."""
    spent: Counter[tuple[Kind, str]] = Counter()
    latest: dict[tuple[Kind, str], float] = {}
    kinds = [kind for kind in _stated(history, LimitValues(history.edits)) if not kind.rolls]
    for kind in kinds:
        for attempt in _under(kind, history):
            period = kind, kind.begins(attempt.by_clock[0])
            spent[period] += attempt.use(kind.meter)
            latest[period] = max(attempt.by_clock[0], latest.get(period, 0.0))
    rows: Counter[tuple[Kind, str]] = Counter()
    for row in history.periods:
        for kind in kinds:
            if (kind.limit, f"{kind.meter}/{kind.period}") == (row.name, row.allowance):
                rows[kind, kind.begins(row.starts)] += row.spent
    kept_since = max(latest.values(), default=0.0) - KEPT_SECONDS
    for kind, begins in sorted({*spent, *rows}):
        is_old = latest.get((kind, begins), 0.0) < kept_since and kind.period in ("minute", "second")
        if rows[kind, begins] != spent[kind, begins] and not (is_old and not rows[kind, begins]):
            text = f"{kind} from {begins}: {rows[kind, begins]:,} spent, used {spent[kind, begins]:,}"
            yield Violation("allowance", text)


def refunds_are_exact(history: History) -> Iterator[Violation]:
    """What is used of a rolling allowance that nobody edited is in the end what its attempts used, to one
    part: all that they did not use of what was reserved was given back, once."""
    values = LimitValues(history.edits)
    refilled = {(row.name, row.allowance): row.at for row in history.refilled}
    ended = max((attempt.by_clock[2] for attempt in history.attempts), default=0.0)
    for kind in _stated(history, values):
        texts = values.allowances(kind.limit, 0, float("inf"))
        stated = {_read(kind.limit, text).get(kind) for text in texts}
        if kind.rolls and len(stated) == 1 and (most := stated.pop()):
            interval = SECONDS[kind.period] / most.amount
            should = max(ended, _refilled(kind, _under(kind, history), interval))
            does = max(ended, refilled.get((kind.limit, f"{kind.meter}/{kind.period}"), 0.0))
            if abs(does - should) > interval:
                text = f"{kind}: {(does - should) / interval:+,.1f} beside what its attempts used"
                yield Violation("allowance", text)


def _refilled(kind: Kind, under: Iterable[Attempt], interval: float) -> float:
    """When a bucket has refilled of which each start takes what its attempt used, as far as that was
    reserved, and each end the rest."""
    taken = [
        taken
        for attempt in under
        for used, reserved in [(attempt.use(kind.meter), attempt.amount(kind.meter))]
        for taken in [
            (attempt.by_clock[1], min(used, reserved)),
            (attempt.by_clock[2], max(0, used - reserved)),
        ]
    ]
    clock = 0.0
    for at, amount in sorted(taken):
        clock = max(clock, at) + amount * interval if amount else clock
    return clock


def judged(history: History) -> Iterator[Judged]:
    """All starts that reserved something under an allowance."""
    values = LimitValues(history.edits)
    for kind in _stated(history, values):
        under, place = _under(kind, history), _place(values.rule_of(kind.limit, "allowances"))
        each = _rolling(kind, under, values) if kind.rolls else _calendar(kind, under, history, values)
        for attempt, beyond in each:
            yield Judged(kind, place, attempt, beyond)


def _under(kind: Kind, history: History) -> list[Attempt]:
    """What ran under a limit, and was to use, or used, some of the meter."""
    meter = kind.meter
    return [a for a in history.attempts if kind.limit in a.names and (a.amount(meter) or a.use(meter))]


def _place(rule: str) -> str:
    """What kind of limit a rule is for."""
    named = {"fleet": "fleet", "phase": "a phase", "tenant": "a tenant", "batch": "a batch"}
    return named.get(rule.partition(":")[0], "a pattern" if rule.endswith("*") else "a key")


Beyond = tuple[Attempt, float]


def _calendar(
    kind: Kind, under: Iterable[Attempt], history: History, values: LimitValues
) -> Iterator[Beyond]:
    freezes = [fault for fault in history.faults if fault.kind in FREEZES]
    in_period: defaultdict[str, list[Attempt]] = defaultdict(list)
    for attempt in sorted(under, key=lambda a: a.leased):
        before = in_period[kind.begins(attempt.by_clock[0])]
        need, at = attempt.amount(kind.meter), attempt.leased
        if need:
            frozen = any(f.began - FROZEN_SECONDS <= at <= f.ended for f in freezes)
            doubt = FROZEN_SECONDS if frozen else DECIDE_SECONDS
            counted = sum(_least_counted(other, kind.meter, at, doubt) for other in before)
            most = _most(kind, values, at, at + max(doubt, LOOK_SECONDS)).amount
            yield attempt, need + counted - most
        before.append(attempt)


def _least_counted(other: Attempt, meter: str, at: float, doubt: float) -> int:
    """What counts at least, when another starts at this time, of one that started before."""
    if other.ended > at + doubt:
        return other.amount(meter)
    if other.ended < at - doubt:
        return other.use(meter)
    return min(other.amount(meter), other.use(meter))


def _rolling(kind: Kind, under: Iterable[Attempt], values: LimitValues) -> Iterator[Beyond]:
    """As a bucket that refills, by the most that was ever allowed until then: of each start counts what was
    reserved and used, from when it began."""
    level, last = 0.0, float("-inf")
    for attempt in sorted(under, key=lambda a: a.by_clock[1]):
        need, at = attempt.amount(kind.meter), attempt.by_clock[1]
        if need:
            most = _most(kind, values, 0, attempt.started + LOOK_SECONDS)
            a_second = most.amount / SECONDS[kind.period]
            level, last = max(0.0, level - (at - last) * a_second), at
            allowed = most.burst + HELD_SECONDS * a_second
            yield attempt, level + need - allowed
            level += min(need, attempt.use(kind.meter))


def _stated(history: History, values: LimitValues) -> Sequence[Kind]:
    """The kinds of allowances that limits had throughout the run, by each key of a pattern."""
    texts = {e.limit: str(e.value) for e in history.edits if e.field == "allowances" and not e.began}
    names = {name for attempt in history.attempts for name in attempt.names}
    rules = {name: values.rule_of(name, "allowances") for name in names}
    return sorted(kind for name, rule in rules.items() if rule in texts for kind in _read(name, texts[rule]))


def _most(kind: Kind, values: LimitValues, since: float, until: float) -> Most:
    """The most that may have been allowed at any time between these."""
    texts = values.allowances(kind.limit, since, until)
    each = [stated[kind] for text in texts if kind in (stated := _read(kind.limit, text))]
    return Most(max(most.amount for most in each), max(most.burst for most in each))


@cache
def _read(limit: str, text: str) -> Mapping[Kind, Most]:
    found: dict[Kind, Most] = {}
    for match in _STATED.finditer(text):
        meter, period = match["meter"], match["period"] or "total"
        rolls = match["how"] == "rolling" or (period in ("second", "minute", "hour") and not match["how"])
        amount, burst = (
            parts_of(meter, Decimal(number.replace(",", "")))
            for number in (match["amount"], match["burst"] or match["amount"])
        )
        found[Kind(limit, meter, period, rolls, match["zone"] or "UTC")] = Most(amount, burst)
    return found
