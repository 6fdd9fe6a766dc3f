"""Queues in which work waits that no live worker can take. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple


class WorkerRun(NamedTuple):
    """One run of a worker: its queues, its slots for steps (0: it runs periodic jobs only), whether it takes
    work now, and until when it did (its last heartbeat, or when it began to drain)."""

    queues: frozenset[str]
    slots: int
    takes_work: bool
    served_until: datetime


def served(workers: Iterable[WorkerRun]) -> frozenset[str]:
    """The queues whose work some worker takes now."""
    return frozenset[str]().union(*(run.queues for run in workers if run.takes_work and run.slots))


def unserved(
    waiting: Mapping[str, datetime], workers: Iterable[WorkerRun], since: datetime
) -> dict[str, datetime]:
    """Of the queues in which work waits (and since when), those where it has waited since then without a
    worker that could take it."""
    runs = [run for run in workers if run.slots]
    now_served = served(runs)
    return {
        queue: waits_since
        for queue, waits_since in waiting.items()
        if queue not in now_served
        and waits_since <= since
        and all(run.served_until <= since for run in runs if queue in run.queues)
    }
