"""The attempts of one execution and the waits between them as bars on one axis of time.

Made of the entries of its history; this module queries nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from queuemgr.base.meters import REQUESTS, Amounts, amounts_read, meter_or_plain
from queuemgr.models import Attempt
from queuemgr.reporting.timeline import Entry

SHOWN = 40
"""Maximum number of bars, the newest: a step may snooze for weeks."""

DRAWN = frozenset({"attempt", "wait"})


@dataclass(frozen=True, slots=True)
class Bar:
    """An attempt or a wait: where it begins and how long it is, in percent of the whole, and what it used.
    Its entry has `lasted` None while it has not ended."""

    entry: Entry
    left: float
    width: float
    used: str


@dataclass(frozen=True, slots=True)
class Waterfall:
    """`bars` in order of time, `left_out` the number of older ones; `lasted` without the time `between` them,
    in which it had ended."""

    bars: Sequence[Bar]
    lasted: timedelta
    between: timedelta
    left_out: int = 0


def waterfall(history: Iterable[Entry], attempts: Iterable[Attempt], now: datetime) -> Waterfall | None:
    """None where nothing was attempted and nothing waited for. What has no end yet lasts until now."""
    every = sorted((entry for entry in history if entry.kind in DRAWN), key=lambda entry: entry.at)
    shown = every[-SHOWN:]
    if not shown:
        return None
    used = {attempt.pk: used_text([attempt]) for attempt in attempts}
    begins, covered, between = shown[0].at, shown[0].at, timedelta()
    starts = list[timedelta]()
    for entry in shown:
        between += max(timedelta(), entry.at - covered)
        starts.append(entry.at - begins - between)
        covered = max(covered, _end(entry, now))
    whole = covered - begins - between

    def bar(entry: Entry, start: timedelta) -> Bar:
        width = _percent(_end(entry, now) - entry.at, whole)
        return Bar(entry, _percent(start, whole), width, used.get(entry.attempt or 0, ""))

    return Waterfall([*map(bar, shown, starts)], whole, between, len(every) - len(shown))


def _percent(part: timedelta, whole: timedelta) -> float:
    return 100 * min(1.0, max(0.0, part / whole)) if whole else 0.0


def _end(entry: Entry, now: datetime) -> datetime:
    return max(entry.at, now if entry.lasted is None else entry.at + entry.lasted)


def used_text(attempts: Iterable[Attempt]) -> str:
    """What these used, as `12 requests, 1,250 tokens, 0.03 usd`; empty for nothing."""
    total: dict[str, int] = {}
    for attempt in attempts:
        for name, amount in _used(attempt).items():
            total[name] = total.get(name, 0) + amount
    return ", ".join(f"{meter_or_plain(name).text(n)} {_unit(name, n)}" for name, n in total.items() if n)


def _used(attempt: Attempt) -> Amounts:
    return {REQUESTS: attempt.cost, **amounts_read(attempt.uses)}


def _unit(name: str, amount: int) -> str:
    return name.removesuffix("s") if amount == 1 and name in (REQUESTS, "tokens") else name
