"""How long work stood still after a fault, by the starts of attempts and by the work lost in it.

Work that costs requests is left out of the latter: a budget may delay it for any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from proof.records import Attempt, Fault

GRACE = 5.0
"""Seconds after the end of a fault in which a pause still counts as its effect."""


def seconds_until_work_went_on(fault: Fault, attempts: Sequence[Attempt]) -> float:
    """From the fault on: the longest time without a start or, if that is longer, until the last of the work
    lost in it was started again."""
    paused = _longest_pause(fault, attempts)
    return max([paused, *_until_started_again(fault, attempts)])


def _longest_pause(fault: Fault, attempts: Iterable[Attempt]) -> float:
    starts = sorted(attempt.started for attempt in attempts)
    until = fault.ended + GRACE
    pauses = (
        later - max(earlier, fault.began)
        for earlier, later in pairwise(starts)
        if later > fault.began and earlier < until
    )
    return max(pauses, default=0.0)


def _until_started_again(fault: Fault, attempts: Sequence[Attempt]) -> list[float]:
    again = (_started_again(lost, attempts) for lost in attempts if _lost_with(fault, lost))
    return [start - fault.began for start in again if start is not None]


def _lost_with(fault: Fault, attempt: Attempt) -> bool:
    under_way = attempt.started <= fault.began < attempt.ended
    on_it = attempt.worker.startswith(f"{fault.target}@")
    return attempt.outcome == "lost" and under_way and on_it and not attempt.cost


def _started_again(lost: Attempt, attempts: Iterable[Attempt]) -> float | None:
    later = (a.started for a in attempts if a.key == lost.key and a.leased >= lost.ended)
    return min(later, default=None)
