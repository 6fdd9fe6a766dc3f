"""How long work stood still after a fault, by the starts of attempts and by the leases lost in it.

When the work of a lost lease starts again is another question, which no fault answers: it waits for its turn
behind work of higher priority, its key's limit and its budget. It is shown and not bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from proof.records import Attempt, Fault
from proof.rules.standstill import lost_with

GRACE = 5.0
"""Seconds after the end of a fault in which a pause still counts as its effect."""


class Recovery(NamedTuple):
    """Seconds from the fault on: until work continued, the bound of that, and until the last of the work
    lost in it was started again (0: none was lost)."""

    seconds: float
    bound: float
    turn: float


def recovery_from(fault: Fault, attempts: Sequence[Attempt]) -> Recovery:
    """Work has gone on when something has started and the leases lost in the fault have ended."""
    lost = list(lost_with(fault, attempts))
    waiting = [attempt.ended - fault.began for attempt in lost]
    turns = [_started_again(each, attempts) - fault.began for each in lost]
    own = fault.over - fault.began
    return Recovery(max([_longest_pause(fault, attempts), *waiting]), own, max(turns, default=0.0))


def _longest_pause(fault: Fault, attempts: Iterable[Attempt]) -> float:
    starts = sorted(attempt.started for attempt in attempts)
    until = fault.ended + GRACE
    pauses = (
        later - max(earlier, fault.began)
        for earlier, later in pairwise(starts)
        if later > fault.began and earlier < until
    )
    return max(pauses, default=0.0)


def _started_again(lost: Attempt, attempts: Iterable[Attempt]) -> float:
    later = (a.started for a in attempts if a.key == lost.key and a.leased >= lost.ended)
    return min(later, default=lost.ended)
