"""A small fleet made by hand, in which every number is known."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from queuemgr.base import histogram
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NORMAL, NewExecution
from queuemgr.lifecycle import begin
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import Execution, Lease, Limit, MinuteStats, Outcome, State, Worker
from tests.usage_rows import spend_requests

HOST = "host:a.example:443"
HOUR = timedelta(hours=1)


def enqueue(count: int, prefix: str, priority: int = NORMAL, **payload: Any) -> None:
    """Probes `prefix0`, `prefix1`, and so on."""
    many = [NewExecution(f"{prefix}{number}", payload) for number in range(count)]
    enqueue_many("probe", many, priority=priority)


def a_fleet(make_worker: Callable[..., Worker]) -> Worker:
    """One worker of 8 slots; a fleet cap of 6 with 1 reserved and a budget of 100, 30 of it spent.

    Waiting: 3 in prep.normal (its cap of 4 is full), 2 in expensive.normal (a cap of 1). Running: 3 of
    prep.normal begun and 1 on its way, 1 of expensive begun with 10 requests reserved.
    """
    worker = make_worker(slots=8)
    Limit.objects.filter(name="fleet").update(
        max_running=6, reserved_high=1, daily_budget=100, reserved_for_high_percent=0
    )
    Limit.objects.filter(name="phase:prep").update(max_running=4)
    Limit.objects.filter(name="phase:expensive").update(max_running=1)
    for name in ("fleet", "phase:expensive"):
        spend_requests(name, 30)
    enqueue(7, "prep", limit_key=HOST)
    enqueue(3, "paid", phase="expensive", requests=10)
    dispatch()
    unstarted = Lease.objects.unstarted().order_by("phase", "leased_at", "execution_id")
    begin.begin([lease.pk for lease in unstarted][:-1], worker.pk)
    return worker


def waited(minutes: float, **which: Any) -> None:
    """Have what waits waited so long."""
    due = database_now() - timedelta(minutes=minutes)
    Execution.objects.waiting().filter(**which).update(run_after=due)


def an_ended(key: str, state: str = State.DONE, **columns: Any) -> Execution:
    """An execution that ended now."""
    return Execution.objects.create(
        flow="probe", key=key, phase="prep", step="probe", state=state,
        finished_at=database_now(), **columns,
    )  # fmt: skip


def a_failed(key: str, kind: str = "not_pdf", message: str = "a web page") -> Execution:
    return an_ended(
        key, State.FAILED, error_kind=kind, error_message=message, error_fingerprint=f"{kind[:8]}1"
    )


def a_minute(
    ago: timedelta, attempts: int = 1, waits: float = 1.0, runs: float = 1.0, **columns: Any
) -> MinuteStats:
    """A rolled-up minute of attempts that all waited and ran so many seconds."""
    waited, ran = histogram.empty(), histogram.empty()
    for _ in range(attempts):
        histogram.count_into(waited, waits)
        histogram.count_into(ran, runs)
    given = {"phase": "prep", "priority": NORMAL, "outcome": Outcome.DONE, **columns}
    minute = (database_now() - ago).replace(second=0, microsecond=0)
    return MinuteStats.objects.create(minute=minute, attempts=attempts, waited=waited, ran=ran, **given)
