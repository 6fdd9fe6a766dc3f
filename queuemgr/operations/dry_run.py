"""What enqueueing would do, without doing it: nothing is written, nothing is locked.

Keys are looked up, the rules of each step of the flow are asked (see `reporting.later_steps`), and the
allowances that it would use are forecast with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from queuemgr.base import meters
from queuemgr.base.errors import NeverFits, SluiceError
from queuemgr.base.redaction import message_of
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NewExecution, get_flow
from queuemgr.lifecycle import uniqueness
from queuemgr.lifecycle.enqueue import Enqueued, Unrouted, check_rank, new_execution
from queuemgr.models import Execution, Queue
from queuemgr.reporting import later_steps, queue_depths
from queuemgr.reporting.later_steps import StepUse
from queuemgr.reporting.remaining_work import Waiting
from queuemgr.scheduling import routes
from queuemgr.scheduling.claims import RouteKind

AT_A_TIME = 500

PROBLEMS = 20
"""How many of those that would be refused are named."""


@dataclass
class DryRun:
    """Takes what would be enqueued, some at a time, and counts what would become of it."""

    flow: str
    priority: int
    new: int = 0
    already: int = 0
    invalid: int = 0
    refused: int = 0
    problems: list[str] = field(default_factory=list)
    uses: Counter[StepUse] = field(default_factory=Counter)
    _seen: set[str] = field(default_factory=set)
    _fits: set[RouteKind] = field(default_factory=set)
    _room: dict[str, int] | None = None

    def __post_init__(self) -> None:
        check_rank(self.priority)

    def add(self, given: Iterable[NewExecution]) -> Enqueued:
        """Count these; returns what enqueueing them would."""
        before, some = Enqueued(self.new, self.already), iter(given)
        while chunk := list(islice(some, AT_A_TIME)):
            self._count([made for each in chunk if (made := self._made(each))])
        return Enqueued(self.new - before.new, self.already - before.already)

    def refuse(self, problem: str) -> None:
        """Count one that is invalid."""
        self.invalid += 1
        if len(self.problems) < PROBLEMS:
            self.problems.append(problem)

    @property
    def waiting(self) -> Iterator[Waiting]:
        """The steps that would wait sooner or later."""
        for use, number in self.uses.items():
            yield Waiting(use.phase, self.priority, use.limit_keys, use.cost, use.uses, number)

    @property
    def used(self) -> Counter[str]:
        """By meter, all of it together."""
        total: Counter[str] = Counter()
        for use, number in self.uses.items():
            for meter, amount in meters.amounts_of(use.cost, use.uses).items():
                total[meter] += amount * number
        return total

    def _made(self, each: NewExecution) -> Unrouted | None:
        """Its row, as it would be inserted; None if it would be refused."""
        try:
            made = new_execution(self.flow, each, self.priority)
            if made.kind not in self._fits:
                routes.check_fits(made.kind)
                self._fits.add(made.kind)
        except NeverFits as error:
            self.refuse(f"{each.key[:60]!r}: {message_of(error)}")
        except SluiceError as error:
            self.refuse(message_of(error))
        else:
            return made
        return None

    def _count(self, made: Sequence[Unrouted]) -> None:
        """Those of these rows that are new, there already or given twice, or that a queue has no room for."""
        if not made:
            return
        rows = [each.row for each in made]
        known = Execution.objects.filter(flow=self.flow, key__in=[row.key for row in rows])
        there = {*known.values_list("key", flat=True), *uniqueness.held(rows)}
        for row, kind in made:
            names = {f"key {row.key}", *([f"unique {row.unique_key}"] if row.unique_key else [])}
            if row.key in there or names & self._seen:
                self.already += 1
                continue
            self._seen |= names
            if self.refused or not self._has_room(kind.queue):
                self.refused += 1
            else:
                self.new += 1
                self.uses.update(self._steps(row, kind))

    def _has_room(self, queue: str) -> bool:
        if self._room is None:
            caps = dict(Queue.objects.filter(max_pending__gt=0).values_list("name", "max_pending"))
            waiting = {each["queue"]: each["waiting"] for each in queue_depths.queue_counts(database_now())}
            self._room = {name: cap - waiting.get(name, 0) for name, cap in caps.items()}
        if queue not in self._room:
            return True
        self._room[queue] -= 1
        return self._room[queue] >= 0

    def _steps(self, row: Execution, first: RouteKind) -> Iterator[StepUse]:
        """What the steps of an execution use, this one and those after it."""
        yield StepUse(row.step, row.phase, first.limit_keys, first.cost, first.uses)
        yield from later_steps.uses_after(self.flow, row.phase, row.step, self.priority, row.payload)


def by_step(run: DryRun) -> list[dict[str, Any]]:
    """What each step would use, in the order of the flow."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for use, number in run.uses.items():
        row = found.setdefault(
            (use.phase, use.step),
            {"phase": use.phase, "step": use.step, "executions": 0, "used": Counter(), "guessed": False},
        )
        row["executions"] += number
        row["guessed"] |= use.guessed
        for meter, amount in meters.amounts_of(use.cost, use.uses).items():
            row["used"][meter] += amount * number
    order = [(ref.phase.name, ref.step.name) for ref in get_flow(run.flow).steps()]
    return [{**found[place], "used": dict(found[place]["used"])} for place in order if place in found]
