"""The calm stretch at the end of a run: when all work is done and no fault has an effect any more, work is
enqueued under rates of its own, with more slots than it can use, to see whether the rates are used.

The fleet starts again with a poll interval of a minute, so that no tick can stand in for the times at which
the fleet is to look again by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psutil

from proof.fleet import POOLS, Fleet
from proof.plan import CALM_LIMITS, CALM_SECONDS, CALM_WAVES
from proof.records import Backlog, Rate
from proof.work import Work

POLL_INTERVAL = 60

SAMPLE = 0.25
SPARE = 0.2
"""Share of the processors that is idle, below which the machine is overloaded."""


@dataclass(frozen=True, slots=True)
class CalmStretch:
    """What was seen of it: the backlogs, and when the machine was overloaded."""

    backlogs: Sequence[Backlog] = ()
    overloads: Sequence[tuple[float, float]] = ()


def stretch(fleet: Fleet, work: Work, wait: Callable[[], None]) -> CalmStretch:
    """Enqueue the work of the stretch and `wait` for its end."""
    fleet.restart_with(poll_interval=POLL_INTERVAL)
    work.set(CALM_LIMITS)
    found: list[Backlog] = []
    with LoadWatch() as load:
        for rates in CALM_WAVES:
            enqueued = [_enqueued(work, rate) for rate in rates]
            wait()
            found += [replace(backlog, until=time.time()) for backlog in enqueued if backlog.keys]
    return CalmStretch(found, load.overloads)


def _enqueued(work: Work, rate: Rate) -> Backlog:
    count = int(CALM_SECONDS * rate.starts / rate.period)
    keys = work.enqueue_at_once("calm", rate.limit, count)
    return Backlog(rate.limit, keys, time.time(), 0.0, sum(slots for _, _, slots in POOLS))


class LoadWatch:
    """Notes the times in which the machine has no processor to spare."""

    def __init__(self) -> None:
        self.overloads: list[tuple[float, float]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> LoadWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        began, before = time.time(), psutil.cpu_times()
        while not self._stopped.wait(SAMPLE):
            ended, after = time.time(), psutil.cpu_times()
            if _idle(after) - _idle(before) < SPARE * (sum(after) - sum(before)):
                self.overloads.append((began, ended))
            began, before = ended, after


def _idle(times: Any) -> float:
    return float(times.idle + getattr(times, "iowait", 0.0))
