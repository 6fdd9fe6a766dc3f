"""A full fleet with a backlog and many failed executions; one process finishes work, another retries.

The child of `bench.bulk`. Failed rows are copies of one row, made inside the database.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.child import answer, request

FILTER = {"error_kind": "network"}

GROUPS = 100
"""Number of failure groups over which the failed executions are spread."""

PAGES = (
    "/admin/", "/admin/queuemgr/execution/?state=failed", "/admin/queuemgr/bulkaction/failures/",
    "/admin/queuemgr/bulkaction/",
)  # fmt: skip
"""The pages that are opened during an action."""


def load(rows: int, waiting: int, leases: int) -> Any:
    """Fill the fleet and the queue, and create the failed executions."""
    from django.utils import timezone

    from bench import backlog
    from queuemgr.lifecycle.enqueue import enqueue
    from queuemgr.models import Execution, State

    backlog.load(waiting, waiting_full=0, held_full=0, open_keys=10, leases=leases)
    ids = []
    for n in range(GROUPS):
        enqueue("probe", f"failed-{n}")
        head = Execution.objects.filter(key=f"failed-{n}")
        head.update(
            state=State.FAILED, route=None, finished_at=timezone.now(),
            error_kind="network", error_message="refused", error_fingerprint=f"{n:016x}",
        )  # fmt: skip
        ids.append(head.get().pk)
    backlog._copy((ids[0], ids[-1]), (1, rows // GROUPS - 1), 0.0)
    backlog._settle_down()
    return Execution.objects.failed().count()


def load_ended(rows: int, waiting: int, leases: int) -> Any:
    """Fill the fleet and the queue, and create executions done two days ago, with an attempt each."""
    from datetime import timedelta

    from bench import backlog
    from queuemgr.base import sql
    from queuemgr.lifecycle.enqueue import enqueue
    from queuemgr.models import Execution, State

    backlog.load(waiting, waiting_full=0, held_full=0, open_keys=10, leases=leases)
    enqueue("probe", "done-0")
    head = Execution.objects.filter(key="done-0")
    ended = head.get().created_at - timedelta(days=2)
    head.update(state=State.DONE, route=None, finished_at=ended)
    pk = head.get().pk
    for start in range(1, rows, backlog.ROWS_AT_A_TIME):
        backlog._copy((pk, pk), (start, min(start + backlog.ROWS_AT_A_TIME, rows) - 1), 0.0)
    sql.run(_ATTEMPTS[connection_vendor()], [ended, ended, ended])
    backlog._settle_down()
    return Execution.objects.filter(state=State.DONE).count()


def connection_vendor() -> str:
    from django.db import connection

    return str(connection.vendor)


_ATTEMPT = """INSERT INTO queuemgr_attempt
    (lease_id, execution_id, phase, step, priority, limit_keys, resources, weight, cost, retrying, worker,
     leased_at, started_at, ended_at, outcome, error_kind, error_message)
    SELECT {uuid}, id, phase, step, priority, '', '', 1, 0, {false}, 'w@bench', %s, %s, %s, 'done', '', ''
      FROM queuemgr_execution WHERE state = 'done'"""
_ATTEMPTS = {
    "postgresql": _ATTEMPT.format(uuid="gen_random_uuid()", false="false"),
    "sqlite": _ATTEMPT.format(uuid="lower(hex(randomblob(16)))", false="0"),
}


def prune() -> Any:
    """Delete the ended executions, slice by slice to the last one; how many, and seconds taken."""
    from django.utils import timezone

    from queuemgr.lifecycle import minute_stats
    from queuemgr.worker import retention

    while minute_stats.roll_up(timezone.now()):
        pass
    began, deleted = time.monotonic(), 0
    while True:
        some = retention.run()
        deleted += some.by_state["done"]
        if not some.left:
            return {"deleted": deleted, "seconds": time.monotonic() - began}


def finish(seconds: float) -> Any:
    """Milliseconds of each finish, one after another for `seconds`. The slot's next lease is granted in it
    or, if the lock stays busy too long, by whoever holds the lock."""
    from bench import backlog
    from queuemgr.flows.outcomes import Done
    from queuemgr.lifecycle import finish
    from queuemgr.lifecycle.dispatch import grant_to

    worker, held = backlog._fleet()
    took, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        ending, free_slots = finish.Finish(held.popleft(), Done()), backlog._one_of(worker)
        began = time.perf_counter()
        finished = finish.finish_batch([ending], free_slots)
        handed = (finished.granted or grant_to(free_slots, finish.LOCK_WAIT_MS)).assigned
        took.append((time.perf_counter() - began) * 1000)
        held += [grant.lease_id for grant in handed] or _begun_by_message(worker.pk)
        time.sleep(0.01)
    return took


def _begun_by_message(worker_id: int) -> list[Any]:
    """Begin the lease that another process granted to the freed slot."""
    from queuemgr.lifecycle import begin
    from queuemgr.models import Lease

    ids = list(Lease.objects.unstarted().values_list("pk", flat=True))
    return [grant.lease_id for grant in begin.begin(ids, worker_id).grants]


def retry(seconds: float) -> Any:
    """Retry failed executions for `seconds` or until none is left; returns rows changed and seconds taken."""
    from bench import played
    from queuemgr.lifecycle import publish
    from queuemgr.models import BulkAction
    from queuemgr.operations import bulk
    from queuemgr.operations.bulk import runner as bulk_runner
    from queuemgr.operations.controls import Actor

    played.catch_messages()
    publish.periodic_job = lambda task: None
    began = time.monotonic()
    made = bulk.begin(bulk.BulkRequest("retry", FILTER, per_minute=0), Actor("bench", "command"))
    counted = time.monotonic() - began
    began = time.monotonic()
    changed = bulk_runner.run(seconds)
    took = time.monotonic() - began
    if BulkAction.objects.running().exists():
        bulk.stop(made.pk, Actor("bench", "command"))
    return {"changed": changed, "seconds": took, "counted": counted}


def first_reads() -> Any:
    """Milliseconds of what a person opens first: the failure groups, and the preview of all executions."""
    from queuemgr.operations import bulk
    from queuemgr.reporting import failure_groups

    reads = (failure_groups.groups, lambda: bulk.preview(bulk.BulkRequest("retry", FILTER)))
    return [_milliseconds(read) for read in reads]


def carry_out() -> Any:
    """Retry all failed executions without a rate: rows changed, and seconds of the count and of the work."""
    from bench import played
    from queuemgr.lifecycle import publish
    from queuemgr.operations import bulk
    from queuemgr.operations.bulk import runner as bulk_runner
    from queuemgr.operations.controls import Actor

    played.catch_messages()
    publish.periodic_job = lambda task: None
    by, made = Actor("bench", "command"), []
    counted = _milliseconds(
        lambda: made.append(bulk.create(bulk.BulkRequest("retry", FILTER, per_minute=0), by))
    )
    began, changed = time.monotonic(), 0
    bulk.start(made[0].pk, by)
    while some := bulk_runner.run(2.0):
        changed += some
    took = time.monotonic() - began
    ended = bulk.get_or_error(made[0].pk)
    assert (ended.state, ended.changed) == ("done", changed), ended
    return {"changed": changed, "seconds": took, "counted": counted}


def look() -> Any:
    """Open the pages again and again while an action runs; milliseconds of each."""
    from bench.page_walk import _operator
    from queuemgr.models import BulkAction

    client = _operator()
    took: dict[str, list[float]] = {page: [] for page in PAGES}
    until = time.monotonic() + 60
    while not (running := BulkAction.objects.running()).exists() and time.monotonic() < until:
        time.sleep(0.2)
    while running.all().exists():
        for page in PAGES:
            took[page].append(_milliseconds(partial(client.get, page)))
        time.sleep(2)
    return took


def _milliseconds(read: Callable[[], object]) -> float:
    began = time.perf_counter()
    read()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    verbs: dict[str, Callable[..., Any]] = {
        "load": load, "finish": finish, "retry": retry, "first_reads": first_reads, "carry_out": carry_out,
        "look": look, "load_ended": load_ended, "prune": prune,
    }  # fmt: skip
    answer(request("bench.bulk_fleet", __doc__, do="load", rows=1000, waiting=100, leases=20), verbs)
