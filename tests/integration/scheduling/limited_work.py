"""What the tests of limits share: who edits, how many leases there are, time that passes for a rate, and an
allowance of a model that steps spend of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.models import F

from queuemgr import Work
from queuemgr.base import sql
from queuemgr.base.bucket_clock import BucketClock
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import AllowanceClock, Execution, Lease
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import allowance_clocks, wakeups
from queuemgr.scheduling.allowance_clocks import ClockRow, all_of

Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]
ANN = Actor("ann", "test", "because")


def leased() -> int:
    return Lease.objects.count()


def pass_time(name: str, seconds: float) -> None:
    """Set a rate's clock back, as if so much time had passed."""
    assert AllowanceClock.objects.filter(name=f"{name} starts").update(clock=F("clock") - seconds)
    wakeups.post(limits=[name])
    dispatch()


MODEL = "openai:gpt"


def allow(text: str, limit: str = MODEL) -> None:
    controls.edit_limit(limit, ANN, new=True, allowances=text)


def spend(grant: Any, **amounts: float) -> None:
    Work(grant, AbortSignal()).spend(**amounts)


def clock_of(name: str) -> float:
    """The clock of a rolling allowance, with what was settled."""
    return clock_at(name).clock


def clock_at(name: str) -> BucketClock:
    rows = sql.rows(ClockRow, *all_of([name]))
    return allowance_clocks.settled(rows)[name]
