"""Recorded attempts as a replay needs them: when each arrived, and how long it ran. Pure.

The first attempt of an execution arrives when it fell due. Each later one arrives a recorded gap (the
backoff of a retry, none for the next step) after the one before it ends, whenever that is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from queuemgr.scheduling.claims import RouteKind


@dataclass(frozen=True, slots=True)
class RecordedAttempt:
    """One row of the attempts table. `due_at` is since when it waited."""

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
    def run_time(self) -> timedelta:
        return max(timedelta(), self.ended_at - self.started_at)

    def kind(self, *, resumed: bool) -> RouteKind:
        """The route it waited on."""
        return RouteKind(
            self.phase, self.priority, resumed, self.limit_keys, self.cost, self.weight, self.tokens,
            self.retrying,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Piece:
    """An attempt to replay, and the index of the one that arrives `gap` after its end, if any."""

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
        changes = [(p.attempt.started_at, 1) for p in self.pieces]
        changes += [(p.attempt.started_at + p.attempt.run_time, -1) for p in self.pieces]
        running = most = 0
        for _, change in sorted(changes):
            running += change
            most = max(most, running)
        return most


def recording(attempts: Iterable[RecordedAttempt], since: datetime) -> Recording:
    """Chain the attempts of each execution. Whether work was resumed is not recorded: it is taken as
    resumed where an earlier attempt in the same phase was recorded."""
    by_execution: dict[int, list[RecordedAttempt]] = defaultdict(list)
    for attempt in sorted(attempts, key=lambda a: (a.started_at, a.ended_at)):
        by_execution[attempt.execution].append(attempt)
    pieces: list[Piece] = []
    firsts: list[int] = []
    for chain in by_execution.values():
        firsts.append(len(pieces))
        pieces += _pieces(chain, len(pieces))
    return Recording(since, pieces, firsts)


def _pieces(chain: list[RecordedAttempt], first: int) -> Iterable[Piece]:
    for number, attempt in enumerate(chain):
        kind = attempt.kind(resumed=any(a.phase == attempt.phase for a in chain[:number]))
        if number + 1 == len(chain):
            yield Piece(attempt, kind)
        else:
            gap = max(timedelta(), chain[number + 1].due_at - attempt.ended_at)
            yield Piece(attempt, kind, first + number + 1, gap)
