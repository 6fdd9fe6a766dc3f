"""What was recorded of work, as a replay takes it: when each attempt came, and how long it ran. Pure.

Of an execution the first attempt comes when it fell due; each later one comes a recorded gap (the wait
of a retry, none for the next step) after the one before it ended, whenever that is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from queuemgr.scheduling.claims import Claim, claims_of


@dataclass(frozen=True, slots=True)
class Recorded:
    """One attempt as its row tells it. `due_at` is since when it waited."""

    execution: int
    phase: str
    step: str
    priority: int
    limit_keys: str
    tokens: str
    weight: int
    cost: int
    retrying: bool
    outcome: str
    due_at: datetime
    started_at: datetime
    ended_at: datetime

    @property
    def ran(self) -> timedelta:
        return max(timedelta(), self.ended_at - self.started_at)


class RouteKey(NamedTuple):
    """What admission tells work apart by: attempts of one kind wait on one route."""

    phase: str
    priority: int
    resumed: bool
    retrying: bool
    limit_keys: str
    tokens: str
    cost: int
    weight: int

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The limits it must pass, and what it takes of each."""
        return claims_of(self.phase, self.limit_keys, self.tokens, self.weight)


@dataclass(frozen=True, slots=True)
class Piece:
    """An attempt to be replayed, and which follows it how long after its end (by its place)."""

    attempt: Recorded
    kind: RouteKey
    follower: int | None = None
    gap: timedelta = timedelta()


@dataclass(frozen=True)
class Recording:
    """Everything recorded between two moments: the pieces, and which of them begin an execution."""

    since: datetime
    pieces: Sequence[Piece]
    firsts: Sequence[int]

    def arrives_at(self, piece: int) -> datetime:
        """When a first piece comes: when it fell due, or with the window if it waited before it."""
        return max(self.since, self.pieces[piece].attempt.due_at)

    @property
    def most_at_once(self) -> int:
        """The most that ran at the same time."""
        moments = [(p.attempt.started_at, 1) for p in self.pieces]
        moments += [(p.attempt.started_at + p.attempt.ran, -1) for p in self.pieces]
        running = most = 0
        for _, change in sorted(moments):
            running += change
            most = max(most, running)
        return most


def recording(attempts: Iterable[Recorded], since: datetime) -> Recording:
    """Order attempts by execution. Whether work was resumed is not recorded: it is, where the window
    holds an earlier attempt in the same phase."""
    by_execution: dict[int, list[Recorded]] = defaultdict(list)
    for attempt in sorted(attempts, key=lambda a: (a.started_at, a.ended_at)):
        by_execution[attempt.execution].append(attempt)
    pieces: list[Piece] = []
    firsts: list[int] = []
    for chain in by_execution.values():
        firsts.append(len(pieces))
        pieces += _chained(chain, len(pieces))
    return Recording(since, pieces, firsts)


def _chained(chain: list[Recorded], place: int) -> Iterable[Piece]:
    for number, attempt in enumerate(chain):
        kind = _kind(attempt, resumed=any(a.phase == attempt.phase for a in chain[:number]))
        if number + 1 == len(chain):
            yield Piece(attempt, kind)
        else:
            gap = max(timedelta(), chain[number + 1].due_at - attempt.ended_at)
            yield Piece(attempt, kind, place + number + 1, gap)


def _kind(a: Recorded, *, resumed: bool) -> RouteKey:
    return RouteKey(
        a.phase, a.priority, resumed, a.retrying, a.limit_keys, a.tokens, a.cost, a.weight
    )  # fmt: skip
