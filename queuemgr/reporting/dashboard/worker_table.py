"""Workers on the dashboard: slots, busy ones, the queues of each, and its last heartbeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.db.models import Q

from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.models import Worker, WorkerDrain
from queuemgr.models.workers import live_span
from queuemgr.reporting.dashboard.phase_table import Held

SHOWN = 12
SHOWN_FOR = timedelta(minutes=15)
"""How long a stopped or dead worker stays on the dashboard."""

Condition = Literal["live", "drained", "draining", "gone", "left"]


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker. `busy` counts its leases; `silent` is the time since its last heartbeat; `drain` says since
    when a person has it take no new work, who and why."""

    worker: Worker
    condition: Condition
    busy: int
    silent: timedelta
    drain: str = ""

    @property
    def slots(self) -> int:
        """Its slots and its async slots."""
        return self.worker.slots + self.worker.async_slots

    @property
    def queues_text(self) -> str:
        return queues_text(self.worker.queues)


@dataclass(frozen=True, slots=True)
class WorkerTable:
    """The workers shown, those in trouble first and then the busiest; totals are of all live ones."""

    shown: tuple[WorkerRow, ...]
    others: int
    live: int
    slots: int
    busy: int
    gone: int


def workers(now: datetime, held: Held) -> WorkerTable:
    """Every worker that is live, has a lease, or was live within `SHOWN_FOR`."""
    busy = Counter[int]()
    for (_, _, worker_id), count in held.items():
        if worker_id is not None:
            busy[worker_id] += count
    known = Worker.objects.filter(Q(seen_at__gt=now - SHOWN_FOR) | Q(pk__in=list(busy)))
    drains = {drain.name: drain.sentence for drain in WorkerDrain.objects.all()}
    all_runs = []
    for worker in known.order_by("name", "-seen_at"):
        drain = drains.get(worker.name, "")
        condition = _condition(worker, busy[worker.pk], now)
        condition = "drained" if drain and condition == "live" else condition
        silent = max(timedelta(), now - worker.seen_at)
        all_runs.append(WorkerRow(worker, condition, busy[worker.pk], silent, drain))
    rows = _latest_runs(all_runs)
    live = [row for row in rows if row.condition == "live"]
    order = {"gone": 0, "draining": 1, "drained": 2, "live": 3, "left": 4}
    ranked = sorted(rows, key=lambda row: (order[row.condition], -row.busy, row.worker.name))
    return WorkerTable(
        shown=tuple(ranked[:SHOWN]),
        others=max(0, len(ranked) - SHOWN),
        live=len(live),
        slots=sum(row.slots for row in live),
        busy=sum(row.busy for row in rows if row.condition in ("live", "drained", "draining")),
        gone=sum(row.condition == "gone" for row in rows),
    )


def _latest_runs(rows: Iterable[WorkerRow]) -> list[WorkerRow]:
    """Without earlier runs of a worker that is back, unless they still have leases."""
    kept: list[WorkerRow] = []
    names: set[tuple[str, str]] = set()
    for row in sorted(rows, key=lambda row: row.silent):
        name = (row.worker.name, row.worker.host)
        if name not in names or row.busy:
            kept.append(row)
        names.add(name)
    return kept


def _condition(worker: Worker, busy: int, now: datetime) -> Condition:
    """`gone`: no heartbeat without draining; `left`: drained and idle."""
    if worker.seen_at in live_span(now) and (busy or not worker.draining_at):
        return "draining" if worker.draining_at else "live"
    return "left" if worker.draining_at and not busy else "gone"


def queues_text(queues: Iterable[str]) -> str:
    """`print, bind.high`: a phase named alone stands for all its priorities."""
    priorities: dict[str, set[str]] = {}
    for queue in sorted(queues):
        phase, _, priority = queue.rpartition(".")
        priorities.setdefault(phase, set()).add(priority)
    every = [name for _, name in sorted(PRIORITY_NAMES.items())]
    words: list[str] = []
    for phase, has in priorities.items():
        ranked = [name for name in every if name in has]
        named = [f"{phase}.{name}" for name in (*ranked, *sorted(has.difference(every)))]
        words += [phase] if has == {*every} else named
    return ", ".join(words) or "none"
