"""A full fleet with a backlog and many failed executions; one process finishes work, another retries.

The child of `bench.bulk`. Failed rows are copies of one, made inside the database.
"""

from __future__ import annotations

import time
from typing import Any

from bench.asides import answer, set_up_django


def load(rows: int, waiting: int, leases: int) -> Any:
    """Fill the fleet and the queue, and make so many failed executions."""
    from django.utils import timezone

    from bench import backlog
    from queuemgr.enqueue import enqueue
    from queuemgr.models import Execution, State

    backlog.load(waiting, waiting_full=0, held_full=0, open_keys=10, leases=leases)
    enqueue("probe", "failed")
    head = Execution.objects.filter(key="failed")
    head.update(
        state=State.FAILED, route=None, finished_at=timezone.now(),
        error_kind="network", error_message="refused", error_fingerprint="0123456789abcdef",
    )  # fmt: skip
    pk = head.get().pk
    backlog._copy((pk, pk), (1, rows - 1), 0.0)
    backlog._settle_down()
    return Execution.objects.failed().count()


def finish(seconds: float) -> Any:
    """Milliseconds of each finish, one after another, for so long; what its slot runs next is decided in
    it, or, where the lock stays busy too long, by whoever holds it."""
    from bench import backlog
    from queuemgr import finish
    from queuemgr.outcomes import Done

    worker, held = backlog._fleet()
    took, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        ending, hands = finish.Ending(held.popleft(), Done()), backlog._one_of(worker)
        began = time.perf_counter()
        handed = finish.end([ending], hands).granted.handed
        took.append((time.perf_counter() - began) * 1000)
        held += [grant.lease_id for grant in handed] or _begun_by_message(worker.pk)
        time.sleep(0.01)
    return took


def _begun_by_message(worker_id: int) -> list[Any]:
    """Begin what another process gave the freed slot."""
    from queuemgr import begin
    from queuemgr.models import Lease

    ids = list(Lease.objects.unstarted().values_list("pk", flat=True))
    return [grant.lease_id for grant in begin.begin(ids, worker_id).grants]


def retry(seconds: float) -> Any:
    """Retry what failed for so long, or until all is; rows changed, and seconds it took."""
    from bench import played
    from queuemgr import bulk, publish
    from queuemgr.bulk import runner as bulk_runner
    from queuemgr.controls import By
    from queuemgr.models import BulkAction

    played.catch_messages()
    publish.chore = lambda task: None
    began = time.monotonic()
    made = bulk.begin(
        bulk.Wanted("retry", {"error_kind": "network"}, per_minute=0), By("bench", "bench")
    )
    counted = time.monotonic() - began
    began = time.monotonic()
    changed = bulk_runner.run(seconds)
    took = time.monotonic() - began
    if BulkAction.objects.running().exists():
        bulk.stop(made.pk, By("bench", "bench"))
    return {"changed": changed, "seconds": took, "counted": counted}


if __name__ == "__main__":
    set_up_django()
    answer({"load": load, "finish": finish, "retry": retry})
