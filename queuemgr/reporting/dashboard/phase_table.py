"""Phases by priority: waiting and running executions, the oldest wait, and aging. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from queuemgr.flows.flow import HIGH, PRIORITY_NAMES, all_phases, queue_name
from queuemgr.scheduling.decision_input import Snapshot

Held = Counter[tuple[str, int, int | None]]
"""How many leases there are, by phase, priority and id of the worker (None: their step has not started)."""


@dataclass(frozen=True, slots=True)
class QueueCell:
    """One queue. `oldest` is how long its oldest due work has waited (None: nothing is due);
    `aged_after` the wait that ages work to the highest priority level (None: it is, or never);
    `paused` a sentence, or empty."""

    queue: str
    phase: str
    priority: str
    waiting: int
    running: int
    unstarted: int
    oldest: timedelta | None
    aged_after: timedelta | None
    paused: str

    @property
    def held(self) -> int:
        return self.running + self.unstarted

    @property
    def is_overdue(self) -> bool:
        """Has its oldest work waited so long that it goes before all other?"""
        return bool(self.oldest and self.aged_after and self.oldest >= self.aged_after)

    @property
    def share_waited(self) -> float | None:
        """How much of that wait has passed, 0 to 1; None where there is none."""
        if self.oldest is None or not self.aged_after:
            return None
        return min(1.0, self.oldest / self.aged_after)


class Sums:
    """Totals of several queues."""

    __slots__ = ()
    cells: Sequence[QueueCell]

    @property
    def waiting(self) -> int:
        return sum(cell.waiting for cell in self.cells)

    @property
    def running(self) -> int:
        return sum(cell.running for cell in self.cells)

    @property
    def unstarted(self) -> int:
        """Leases whose step has not started."""
        return sum(cell.unstarted for cell in self.cells)

    @property
    def held(self) -> int:
        return self.running + self.unstarted

    @property
    def oldest(self) -> timedelta | None:
        return max((cell.oldest for cell in self.cells if cell.oldest is not None), default=None)


@dataclass(frozen=True)
class PhaseRow(Sums):
    """One phase over its priorities, with the operator's words for its work."""

    phase: str
    waits_as: str
    runs_as: str
    cells: Sequence[QueueCell]


def phase_rows(snapshot: Snapshot, waiting: Mapping[int, int], held: Held) -> tuple[PhaseRow, ...]:
    """The matrix, from a snapshot, how many wait on each route, and the leases.

    A phase no flow knows any more has a row as long as work waits or runs in it.
    """
    by_queue: Counter[tuple[str, int]] = Counter()
    for route in snapshot.routes:
        by_queue[route.phase, route.priority] += waiting.get(route.id, 0)
    known = all_phases()
    others = {phase for phase, _ in by_queue} | {phase for phase, *_ in held}
    rows = []
    for phase in (*known, *sorted(others - known.keys())):
        cells = (_cell(snapshot, phase, rank, by_queue[phase, rank], held) for rank in sorted(PRIORITY_NAMES))
        words = known.get(phase)
        waits_as, runs_as = (words.waiting, words.running) if words else ("waiting", "running")
        rows.append(PhaseRow(phase, waits_as, runs_as, tuple(cells)))
    return tuple(rows)


def _cell(snapshot: Snapshot, phase: str, rank: int, waiting: int, held: Held) -> QueueCell:
    leases = sum(n for (*queue, _), n in held.items() if queue == [phase, rank])
    heads = (route.head_at for route in snapshot.routes if (route.phase, route.priority) == (phase, rank))
    due = [head for head in heads if head and head <= snapshot.now]
    starvation = snapshot.ordering.starvation
    name = queue_name(phase, rank)
    paused = snapshot.paused_queues.get(name)
    return QueueCell(
        queue=name,
        phase=phase,
        priority=PRIORITY_NAMES[rank],
        waiting=waiting,
        running=leases - held[phase, rank, None],
        unstarted=held[phase, rank, None],
        oldest=snapshot.now - min(due) if due else None,
        # One priority level for every starvation time waited, until there is none better.
        aged_after=starvation * (rank - HIGH) if starvation and rank > HIGH else None,
        paused=paused.text if paused else "",
    )
