"""The fleet, as the database knows it: workers, periodic jobs, leases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from queuemgr.base.config import queue_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import CheckResult, all_queues
from queuemgr.models import Execution, Lease, PeriodicJob, Worker

START_ONE = "start `manage.py up`, `queue run` or `worker`"


def workers() -> Iterator[CheckResult]:
    """Whether somebody takes the work of every queue; without any worker it matters once work waits."""
    alive = Worker.objects.available(database_now())
    served = {queue for queues in alive.values_list("queues", flat=True) for queue in queues}
    idle = [queue for queue in all_queues() if queue not in served]
    waiting = 0 if served else Execution.objects.waiting().count()
    if waiting:
        yield CheckResult("bad", f"no worker is alive, and {waiting} executions wait", START_ONE)
    elif not served:
        yield CheckResult("note", "no worker is alive", START_ONE)
    elif idle:
        yield CheckResult("bad", f"no live worker consumes {', '.join(idle)}", "start one with these in -Q")
    else:
        yield CheckResult("good", f"{len(alive)} workers alive, every queue consumed")


def periodic_jobs() -> Iterator[CheckResult]:
    last = PeriodicJob.objects.filter(name="tick").values_list("ran_at", flat=True).first()
    every = timedelta(seconds=queue_settings().poll_interval)
    if last is None or not Worker.objects.exists():
        return
    late = database_now() - last
    if late > 6 * every:
        alive = Worker.objects.available(database_now()).exists()
        yield CheckResult("bad" if alive else "note", f"the last tick was {late.total_seconds():.0f} s ago",
                      "start `celery -A project beat` and a worker on the queue housekeeping")  # fmt: skip
    else:
        yield CheckResult("good", "periodic jobs run on time")


def leases() -> Iterator[CheckResult]:
    expired = Lease.objects.expired(database_now() - timedelta(seconds=60)).count()
    if expired:
        yield CheckResult("bad", f"{expired} leases expired over a minute ago and still exist",
                      "the tick does not run: see the line on periodic jobs")  # fmt: skip
    waiting = Execution.objects.waiting().exists()
    if waiting and not expired:
        yield CheckResult("good", "work is waiting; `queue stats` shows for what")
