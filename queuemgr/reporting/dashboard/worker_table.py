"""Workers on the dashboard: slots, busy ones, the queues of each, and its last heartbeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.db.models import Q

from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.models import Worker
from queuemgr.reporting.dashboard.phase_table import HeldLeases
from queuemgr.scheduling.snapshot import live_since

SHOWN = 12
SHOWN_FOR = timedelta(minutes=15)
"""How long a stopped or dead worker stays on the dashboard."""

Condition = Literal["live", "draining", "gone", "left"]


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker. `busy` counts its leases; `lanes` names its queues; `silent` is the time since its last
    heartbeat."""

    id: int
    name: str
    host: str
    condition: Condition
    slots: int
    busy: int
    lanes: str
    silent: timedelta
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers shown, those in trouble first and then the busiest; totals are of all live ones."""

    shown: tuple[WorkerRow, ...]
    others: int
    live: int
    slots: int
    busy: int
    gone: int


def workers(now: datetime, held: Sequence[HeldLeases]) -> Workers:
    """Every worker that is live, has a lease, or was live within `SHOWN_FOR`."""
    busy = Counter[int]()
    for lease in held:
        if lease.worker_id is not None:
            busy[lease.worker_id] += lease.count
    rows = Worker.objects.filter(Q(seen_at__gt=now - SHOWN_FOR) | Q(pk__in=list(busy)))
    found = [_row(worker, busy[worker.pk], now) for worker in rows.order_by("name", "-seen_at")]
    return _shown(_latest_runs(found))


def _latest_runs(rows: Iterable[WorkerRow]) -> list[WorkerRow]:
    """Without earlier runs of a worker that is back, unless they still have leases."""
    kept: list[WorkerRow] = []
    names: set[tuple[str, str]] = set()
    for row in sorted(rows, key=lambda row: row.silent):
        if (row.name, row.host) not in names or row.busy:
            kept.append(row)
        names.add((row.name, row.host))
    return kept


def _shown(rows: Sequence[WorkerRow], most: int = SHOWN) -> Workers:
    here = [row for row in rows if row.condition in ("live", "draining")]
    order = {"gone": 0, "draining": 1, "live": 2, "left": 3}
    ranked = sorted(rows, key=lambda row: (order[row.condition], -row.busy, row.name))
    return Workers(
        shown=tuple(ranked[:most]),
        others=max(0, len(ranked) - most),
        live=sum(row.condition == "live" for row in rows),
        slots=sum(row.slots for row in rows if row.condition == "live"),
        busy=sum(row.busy for row in here),
        gone=sum(row.condition == "gone" for row in rows),
    )


def _row(worker: Worker, busy: int, now: datetime) -> WorkerRow:
    return WorkerRow(
        id=worker.pk,
        name=worker.name,
        host=worker.host,
        condition=_condition(worker, busy, now),
        slots=worker.slots,
        busy=busy,
        lanes=lanes(worker.queues),
        silent=max(timedelta(), now - worker.seen_at),
        seen_at=worker.seen_at,
    )


def _condition(worker: Worker, busy: int, now: datetime) -> Condition:
    """`gone` has no heartbeat and was not told to stop; `left` was drained and is done."""
    if worker.seen_at > live_since(now) and (busy or not worker.draining_at):
        return "draining" if worker.draining_at else "live"
    return "left" if worker.draining_at and not busy else "gone"


def lanes(queues: Iterable[str]) -> str:
    """`print, bind.high`: a phase named alone stands for all its priorities."""
    priorities: dict[str, set[str]] = {}
    for queue in sorted(queues):
        phase, _, priority = queue.rpartition(".")
        priorities.setdefault(phase, set()).add(priority)
    every = set(PRIORITY_NAMES.values())
    words = [
        phase if has == every else ", ".join(f"{phase}.{name}" for name in every_in_order(has))
        for phase, has in priorities.items()
    ]
    return ", ".join(words) or "none"


def every_in_order(names: set[str]) -> list[str]:
    """Priorities by rank; others behind."""
    ranked = [name for _, name in sorted(PRIORITY_NAMES.items()) if name in names]
    return [*ranked, *sorted(names.difference(ranked))]
