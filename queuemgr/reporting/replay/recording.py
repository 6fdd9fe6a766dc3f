"""Recorded attempts as a replay needs them: when each arrived, and how long it ran. Pure.

The first attempt of an execution arrives when it fell due. Each later one arrives a recorded gap (the
backoff of a retry, none for the next step) after the one before it ends, whenever that is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from typing import NamedTuple

from queuemgr.base import meters
from queuemgr.scheduling.claims import RouteKind


class RecordedAttempt(NamedTuple):
    """One row of the attempts table, named by its columns. `due_at` is since when it waited."""

    execution_id: int
    phase: str
    step: str
    priority: int
    limit_keys: str
    resources: str
    weight: int
    cost: int
    retrying: bool
    outcome: str
    due_at: datetime
    started_at: datetime
    ended_at: datetime
    uses: str | None = None

    @property
    def run_time(self) -> timedelta:
        return max(timedelta(), self.ended_at - self.started_at)


@dataclass(slots=True)
class Piece:
    """An attempt to replay, the route it waits on, and the index of the one that arrives `gap` after its
    end, if any."""

    attempt: RecordedAttempt
    kind: RouteKind
    next: int | None = None
    gap: timedelta = timedelta()


@dataclass(frozen=True)
class Recording:
    """All attempts recorded since a time; `firsts` are the indexes of each execution's first."""

    since: datetime
    pieces: Sequence[Piece]
    firsts: Sequence[int]

    def arrives_at(self, first: int) -> datetime:
        """When it fell due, or the start of the recording if it waited before that."""
        return max(self.since, self.pieces[first].attempt.due_at)

    @property
    def max_running(self) -> int:
        """The most attempts that ran at the same time."""
        attempts = [piece.attempt for piece in self.pieces]
        changes = [(a.started_at, 1) for a in attempts] + [(a.started_at + a.run_time, -1) for a in attempts]
        return max(accumulate(change for _, change in sorted(changes)), default=0)


def recording(attempts: Iterable[RecordedAttempt], since: datetime) -> Recording:
    """Chain the attempts of each execution. Whether work was resumed is not recorded: it is taken as resumed
    where an earlier attempt in the same phase was recorded."""
    by_execution: dict[int, list[RecordedAttempt]] = defaultdict(list)
    for attempt in sorted(attempts, key=lambda a: (a.started_at, a.ended_at)):
        by_execution[attempt.execution_id].append(attempt)
    pieces: list[Piece] = []
    firsts: list[int] = []
    for chain in by_execution.values():
        firsts.append(len(pieces))
        phases: set[str] = set()
        for a in chain:
            kind = RouteKind(
                a.phase, a.priority, a.phase in phases, a.limit_keys, a.cost, a.weight, a.resources,
                a.retrying, _on_grid(a.uses or ""),
            )  # fmt: skip
            pieces.append(Piece(a, kind))
            phases.add(a.phase)
        for index, (attempt, later) in enumerate(pairwise(chain), start=firsts[-1]):
            pieces[index].next = index + 1
            pieces[index].gap = max(timedelta(), later.due_at - attempt.ended_at)
    return Recording(since, pieces, firsts)


def _on_grid(uses: str) -> str:
    """Rounded up as estimates are, so that attempts that used about as much wait on one route."""
    return meters.as_text({name: meters.on_grid(used) for name, used in meters.from_text(uses).items()})
