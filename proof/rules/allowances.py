"""What is allowed of a meter in a period: by the calendar, or rolling with a burst."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
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

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_STATED = re.compile(
    r"(?P<amount>[\d,]+) (?P<meter>\w+)/(?P<period>\w+)(?P<calendar> calendar)?"
    r"(?: burst (?P<burst>[\d,]+))?(?: in (?P<zone>\S+))?"
)


class Kind(NamedTuple):
    """Of a limit, what distinguishes one of its allowances from the others."""

    limit: str
    meter: str
    period: str
    rolls: bool
    zone: str = "UTC"

    def begins(self, moment: float) -> str:
        """The period of a moment, by the fleet's clock."""
        local = datetime.fromtimestamp(moment, ZoneInfo(self.zone))
        length = {"day": 10, "hour": 13, "minute": 16}.get(self.period, 19)
        return local.isoformat()[:length]


class Most(NamedTuple):
    amount: int
    burst: int


class Judged(NamedTuple):
    """A start: by how much it exceeds what is allowed (or falls short of it), and what it reserved."""

    kind: Kind
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
    """What is spent in a period by the database is what its attempts used, each counted once."""
    spent: Counter[tuple[Kind, str]] = Counter()
    kinds = [kind for kind in _stated(history) if not kind.rolls]
    for kind in kinds:
        for attempt in history.attempts:
            if kind.limit in attempt.names:
                spent[kind, kind.begins(attempt.leased + attempt.ahead)] += attempt.use(kind.meter)
    rows: Counter[tuple[Kind, str]] = Counter()
    for row in history.periods:
        for kind in kinds:
            if (kind.limit, f"{kind.meter}/{kind.period}") == (row.name, row.allowance):
                rows[kind, kind.begins(row.starts)] += row.spent
    for kind, begins in sorted({*spent, *rows}):
        if rows[kind, begins] != spent[kind, begins]:
            text = f"{kind} from {begins}: {rows[kind, begins]:,} spent, used {spent[kind, begins]:,}"
            yield Violation("allowance", text)


def judged(history: History) -> Iterator[Judged]:
    """All starts that reserved something under an allowance."""
    values = LimitValues(history.edits)
    for kind in _stated(history):
        under = [a for a in history.attempts if kind.limit in a.names]
        yield from _rolling(kind, under, values) if kind.rolls else _calendar(kind, under, history, values)


def _calendar(
    kind: Kind, under: Iterable[Attempt], history: History, values: LimitValues
) -> Iterator[Judged]:
    freezes = [fault for fault in history.faults if fault.kind in FREEZES]
    in_period: defaultdict[str, list[Attempt]] = defaultdict(list)
    for attempt in sorted(under, key=lambda a: a.leased):
        before = in_period[kind.begins(attempt.leased + attempt.ahead)]
        need, at = attempt.amount(kind.meter), attempt.leased
        if need:
            frozen = any(f.began - FROZEN_SECONDS <= at <= f.ended for f in freezes)
            doubt = FROZEN_SECONDS if frozen else DECIDE_SECONDS
            counted = sum(_least_counted(other, kind.meter, at, doubt) for other in before)
            most = _most(kind, values, at, at + max(doubt, LOOK_SECONDS)).amount
            yield Judged(kind, attempt, need + counted - most)
        before.append(attempt)


def _least_counted(other: Attempt, meter: str, at: float, doubt: float) -> int:
    """What counts at least, when another starts at this time, of one that started before."""
    if other.ended > at + doubt:
        return other.amount(meter)
    if other.ended < at - doubt:
        return other.use(meter)
    return min(other.amount(meter), other.use(meter))


def _rolling(kind: Kind, under: Iterable[Attempt], values: LimitValues) -> Iterator[Judged]:
    """As a bucket that refills, by the most that was ever allowed until then: of each start counts what was
    reserved and used, from when it began."""
    level, last = 0.0, float("-inf")
    for attempt in sorted(under, key=lambda a: a.started + a.ahead):
        need, at = attempt.amount(kind.meter), attempt.started + attempt.ahead
        if need:
            most = _most(kind, values, 0, attempt.started + LOOK_SECONDS)
            a_second = most.amount / SECONDS[kind.period]
            level, last = max(0.0, level - (at - last) * a_second), at
            allowed = most.burst + HELD_SECONDS * a_second
            yield Judged(kind, attempt, level + need - allowed)
            level += min(need, attempt.use(kind.meter))


def _stated(history: History) -> Sequence[Kind]:
    """The kinds of allowances that limits had throughout the run."""
    kinds = {
        kind
        for edit in history.edits
        if edit.field == "allowances" and not edit.began
        for kind in _read(edit.limit, str(edit.value))
    }
    return sorted(kinds)


def _most(kind: Kind, values: LimitValues, since: float, until: float) -> Most:
    """The most that may have been allowed at any time between these."""
    texts = values.allowances(kind.limit, since, until)
    each = [stated[kind] for text in texts if kind in (stated := _read(kind.limit, text))]
    return Most(max(most.amount for most in each), max(most.burst for most in each))


@cache
def _read(limit: str, text: str) -> Mapping[Kind, Most]:
    found: dict[Kind, Most] = {}
    for match in _STATED.finditer(text):
        rolls = match["period"] in ("second", "minute", "hour") and not match["calendar"]
        amount = int(match["amount"].replace(",", ""))
        burst = int((match["burst"] or match["amount"]).replace(",", ""))
        kind = Kind(limit, match["meter"], match["period"], rolls, match["zone"] or "UTC")
        found[kind] = Most(amount, burst)
    return found
