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
    """`bars` in order of time, `left_out` the number of older ones."""

    bars: Sequence[Bar]
    begins: datetime
    ends: datetime
    left_out: int = 0

    @property
    def lasted(self) -> timedelta:
        return self.ends - self.begins


def waterfall(history: Iterable[Entry], attempts: Iterable[Attempt], now: datetime) -> Waterfall | None:
    """None where nothing was attempted and nothing waited for. What has no end yet lasts until now."""
    every = [entry for entry in history if entry.kind in DRAWN]
    shown = every[-SHOWN:]
    if not shown:
        return None
    used = {attempt.pk: used_text([attempt]) for attempt in attempts}
    begins = min(entry.at for entry in shown)
    ends = max(_end(entry, now) for entry in shown)
    whole = max((ends - begins).total_seconds(), 0.001)

    def bar(entry: Entry) -> Bar:
        left = 100 * (entry.at - begins).total_seconds() / whole
        width = 100 * (_end(entry, now) - entry.at).total_seconds() / whole
        return Bar(
            entry, min(100.0, max(0.0, left)), min(100.0, max(0.0, width)), used.get(entry.attempt or 0, "")
        )

    return Waterfall([bar(entry) for entry in shown], begins, ends, len(every) - len(shown))


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
