"""What pages say is there when they show a command: scenes, made in a documented project.

A page names one before a block: `<!-- given: a failed call -->`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import Flow, NewExecution, Phase, Step, all_queues, register_flow
from queuemgr.lifecycle import begin, dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import Execution, Lease, Worker
from queuemgr.schedules import declared_rows
from queuemgr.testing import run_due
from queuemgr.worker import expiry

SCENES: dict[str, Callable[[], None]] = {}


def scene(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def enter(make: Callable[[], None]) -> Callable[[], None]:
        SCENES[name] = make
        return make

    return enter


def _enqueue(prefix: str, count: int, **payload: Any) -> None:
    enqueue_many("probe", [NewExecution(f"{prefix}-{number}", payload) for number in range(count)])


def _worker(name: str, slots: int, queues: list[str]) -> Worker:
    """A row of one; with a queue in which nothing waits it is given no work, which nobody would do."""
    now = database_now()
    return Worker.objects.create(
        name=name, host="host1", pid=1, queues=queues, slots=slots, started_at=now, seen_at=now
    )


@scene("a day's work, and a budget that is spent")
def a_days_work() -> None:
    call_command("queue", "limit", "fleet", daily_budget="20", reason="as agreed", stdout=StringIO())
    _enqueue("free", 5)
    _enqueue("paid", 30, requests=1)
    _enqueue("gone", 3, fail="not_found")
    _enqueue("broken", 1, fail="network")
    run_due(raising=False)
    _worker("steps@host1", 4, ["default.high"])
    _worker("housekeeping@host1", 1, ["housekeeping"])


@scene("a flow of two phases")
def a_flow_of_two_phases() -> None:
    step = Step("fetch", "probe.run")
    phases = (Phase("prep", 0, "waiting", "fetching", (step,)), Phase("wrap", 1, "fetched", "wrapping", ()))
    register_flow(Flow("papers", phases))


@scene("calls that failed for their arguments")
def calls_that_failed() -> None:
    from letters.tasks import send

    for number in range(3):
        send.enqueue(f"nobody-{number}")
    Execution.objects.filter(flow="letters.tasks.send", state="waiting").update(payload={"mail": "nobody"})
    call_command("queue", "policy", "bad_payload", max_attempts="1", reason="scene", stdout=StringIO())
    run_due(raising=False)


@scene("a worker that was killed, and another")
def a_worker_was_killed() -> None:
    run_due(raising=False)
    killed = _worker("a@host1", 1, all_queues())
    _enqueue("job", 3)
    dispatch.dispatch()
    leases = list(Lease.objects.filter(execution__key__startswith="job-").values_list("pk", flat=True))
    begin.begin(leases, killed.pk)
    past = database_now() - timedelta(minutes=10)
    expiry.look()  # leases that expire while nobody looks count as lost in an outage
    Lease.objects.filter(pk__in=leases).update(expires_at=past, started_at=past)
    Worker.objects.filter(pk=killed.pk).update(seen_at=past)
    expiry.look()
    run_due(raising=False)


@scene("what was retried has failed again")
def it_failed_again() -> None:
    run_due(raising=False)


@scene("a flow called orders, and a worker that has started")
def a_flow_called_orders() -> None:
    register_flow(Flow("orders", (Phase("default", 0, "waiting", "running", (Step("read", "probe.run"),)),)))
    declared_rows.sync()


@scene("ann and bob")
def ann_and_bob() -> None:
    for name in ("ann", "bob"):
        get_user_model().objects.create(username=name)


@scene("a person called robot")
def a_person_called_robot() -> None:
    get_user_model().objects.create(username="robot")
