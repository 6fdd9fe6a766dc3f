"""Checks that the numbers add up: every execution is counted twice, by state and by where it is.

Ended executions may be millions, and counting a million takes the database a tenth of a second; so the count
is cached for a while (`timed_cache`) and shown with its time. All of one count is of one moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count

from queuemgr.flows.flow import all_phases
from queuemgr.models import FINAL, HELD, Execution, State
from queuemgr.reporting.dashboard.phase_table import Held, PhaseRow
from queuemgr.scheduling.claims import FLEET
from queuemgr.scheduling.decision_input import NO_USE, Snapshot


@dataclass(frozen=True, slots=True)
class AllExecutions:
    """Executions counted at one moment: `by_state`, `waiting` by route, and `held` by lease."""

    at: datetime
    by_state: Counter[str]
    waiting: int
    held: int

    @property
    def ended(self) -> int:
        return sum(self.by_state[state] for state in FINAL)

    @property
    def failed(self) -> int:
        return self.by_state[State.FAILED]


def all_executions(now: datetime, waiting: int, held: int) -> AllExecutions:
    """Count by state, beside what was counted at the same moment of waiting work and of leases."""
    states = Execution.objects.order_by().values_list("state").annotate(n=Count("*"))
    return AllExecutions(now, Counter(dict(states)), waiting, held)


@dataclass(frozen=True, slots=True)
class SumCheck:
    """`parts` must sum to `whole`; each is named."""

    name: str
    parts: tuple[tuple[str, int], ...]
    whole: tuple[str, int]

    @property
    def difference(self) -> int:
        """How much the parts exceed the whole; 0 when it adds up."""
        return sum(count for _, count in self.parts) - self.whole[1]

    @property
    def is_right(self) -> bool:
        return self.difference == 0


def checks(
    counted: AllExecutions,
    snapshot: Snapshot,
    phases: Sequence[PhaseRow],
    held: Held,
    spent: Mapping[str, int],
) -> Iterator[SumCheck]:
    """Each sum that must add up; `spent` are the requests of today by limit."""
    yield SumCheck(
        "Executions",
        (("waiting", counted.waiting), ("running", counted.held), ("ended", counted.ended)),
        ("all", counted.by_state.total()),
    )
    in_held_states = Execution.objects.filter(state__in=HELD).count()
    yield SumCheck("Leases", (("leases", held.total()),), ("executions a worker holds", in_held_states))
    fleet = snapshot.use.get(FLEET, NO_USE)
    slots = tuple((row.phase, snapshot.use.get(f"phase:{row.phase}", NO_USE).running) for row in phases)
    yield SumCheck("Slots", slots, ("the fleet's", fleet.running))
    # The requests of phases add up to the fleet's only where all have one time zone, and so one day.
    names = (FLEET, *map("phase:{}".format, all_phases()))
    if len({snapshot.rule(name).day_at(snapshot.now).starts for name in names}) == 1:
        by_phase = tuple((phase, spent.get(f"phase:{phase}", 0)) for phase in all_phases())
        yield SumCheck("Requests today", by_phase, ("the fleet's", spent.get(FLEET, 0)))
