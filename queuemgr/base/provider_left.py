"""What a provider says is left of a meter: answers come in any order, each as old as its request. Pure.

The answer to the request that was sent last counts. What the provider may not have counted by then is taken
off: what started less than `COUNTED_WITHIN` seconds before that request, and since. Of requests sent within
so many seconds of each other nobody knows which was counted last, so the lowest of their answers counts.

So nothing starts that the provider would refuse for what the fleet itself has used, in whatever order answers
come, where each piece of work sends a request at its start, as large as was reserved for it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple

COUNTED_WITHIN = 5.0
"""Seconds from the start of a piece of work until the provider has counted its request."""

MOST = 20
"""Answers, and ends without one, that are kept of a meter; then the two oldest are merged."""

KEPT = 600.0
"""Seconds after its start that what ended without an answer is kept for the next answer."""


class Answer(NamedTuple):
    """What was left by the answer to a request that was sent then, and when that is over, in Unix seconds by
    the database's clock."""

    sent: float
    remaining: int
    resets: float


class Use(NamedTuple):
    """What work uses that started then and of which no answer tells."""

    started: float
    amount: int


class Left(NamedTuple):
    """How much may be used until then, if no other answer comes; with a reason nothing at all."""

    amount: int
    until: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProviderLeft:
    """What is known of one meter under one limit. `ended`: what ended without an answer. Until `closed`
    nothing starts that uses the meter: the provider refused for it, as `reason` says."""

    answers: tuple[Answer, ...] = ()
    ended: tuple[Use, ...] = ()
    closed: float = 0.0
    reason: str = ""

    def answered(self, answer: Answer, now: float) -> ProviderLeft:
        known = sorted(each for each in (*self.answers, answer) if each.resets > now)
        latest = known[-1].sent if known else now
        known = [each for each in known if each.sent >= latest - COUNTED_WITHIN]
        if len(known) > MOST:
            sent, remaining, resets = zip(*known[:2], strict=True)
            known[:2] = [Answer(min(sent), min(remaining), max(resets))]
        first = min((each.sent for each in known), default=now)
        ended = tuple(each for each in self.ended if each.started > first - COUNTED_WITHIN)
        return replace(self, answers=tuple(known), ended=ended)

    def ended_unanswered(self, use: Use, now: float) -> ProviderLeft:
        ended = sorted([*(each for each in self.ended if each.started > now - KEPT), use])
        if len(ended) > MOST:
            ended[:2] = [Use(ended[1].started, ended[0].amount + ended[1].amount)]
        return replace(self, ended=tuple(ended))

    def closed_until(self, until: float, reason: str) -> ProviderLeft:
        """An earlier end never shortens a later one."""
        return replace(self, closed=until, reason=reason) if until > self.closed else self

    def left(self, running: Iterable[Use], now: float) -> Left | None:
        """What may be used, with this running; None where nothing is known any more."""
        if self.closed > now:
            return Left(0, self.closed, self.reason)
        used = _Since([*self.ended, *running])
        bounds = [Left(each.remaining - used.since(each.sent - COUNTED_WITHIN), each.resets)
                  for each in self.answers if each.resets > now]  # fmt: skip
        return min(bounds, default=None)

    def is_over(self, now: float) -> bool:
        """Whether nothing of it holds any more, nor is needed for the next answer."""
        ends = (self.closed, *(each.resets for each in self.answers), *(e.started + KEPT for e in self.ended))
        return max(ends) <= now


class _Since:
    """Sums of uses by their start."""

    def __init__(self, uses: Sequence[Use]) -> None:
        latest_first = sorted(uses, reverse=True)
        self._starts = [-each.started for each in latest_first]
        self._sums = list(accumulate((each.amount for each in latest_first), initial=0))

    def since(self, moment: float) -> int:
        """Of those that started after it."""
        return self._sums[bisect_right(self._starts, -moment)]


NOTHING_KNOWN = ProviderLeft()

ByMeter = Mapping[str, ProviderLeft]


def as_text(by_meter: ByMeter) -> str:
    """As rows store it; empty if nothing is known."""
    known = {meter: left for meter, left in by_meter.items() if left != NOTHING_KNOWN}
    stored = {m: [left.answers, left.ended, left.closed, left.reason] for m, left in known.items()}
    return json.dumps(stored) if stored else ""


@lru_cache(maxsize=2_000)
def from_text(text: str) -> ByMeter:
    """What `as_text` wrote."""
    stored = json.loads(text) if text else {}
    return MappingProxyType({meter: _left(*each) for meter, each in stored.items()})


def _left(answers: list[list[float]], ended: list[list[float]], closed: float, reason: str) -> ProviderLeft:
    return ProviderLeft(
        tuple(Answer(sent, int(remaining), resets) for sent, remaining, resets in answers),
        tuple(Use(started, int(amount)) for started, amount in ended),
        closed,
        reason,
    )
