"""`python -m bench.finish`: finishes per second on PostgreSQL, with and without prepared statements.

No Celery and no messages: the benchmark simulates one worker whose slots all end no-op probes at once, so
that only the transaction is timed that finishes leases and grants the next ones. The two alternate, round
by round.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING

from bench.child import ROOT
from bench.contestants import fresh, servers

if TYPE_CHECKING:  # importing it for real needs Django's settings
    from queuemgr.lifecycle.leases import Grant

BATCHES = (1, 8, 50)
NEVER = 1_000_000_000
"""Uses of a statement before it is prepared: so many that it never is."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.finish", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs (default 5)")
    parser.add_argument("--play", type=int, metavar="SLOTS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        print(played(options.play))
    else:
        compare(options.rounds)


def compare(rounds: int) -> None:
    """Print both rates, and the ratio of each round."""
    with servers() as (_, postgres, root):
        for slots in BATCHES:
            pairs = [
                [
                    _run(slots, f"{fresh(postgres)}{query}", str(root / "data"))
                    for query in (f"?prepare_threshold={NEVER}", "")
                ]
                for _ in range(rounds)
            ]
            ratios = [prepared / not_prepared for not_prepared, prepared in pairs]
            print(
                f"{slots:>3} at once: {median(p[0] for p in pairs):,.0f}/s not prepared, "
                f"{median(p[1] for p in pairs):,.0f}/s prepared, "
                f"ratio {median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})"
            )


def _run(slots: int, database_url: str, data: str) -> float:
    environment = {**os.environ, "DATABASE_URL": database_url, "SLUICE_DATA_DIR": data}
    command = [sys.executable, "-m", "bench.finish", "--play", str(slots)]
    done = subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return float(done.stdout)


def played(slots: int) -> float:
    """Finishes per second of one worker with `slots` slots that all end at the same time."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    from django.core.management import call_command

    from queuemgr.lifecycle import publish
    from queuemgr.scheduling import limit_rows

    call_command("migrate", verbosity=0)
    limit_rows.sync()
    publish.send = len  # type: ignore[assignment]  # nobody would receive the messages
    worker = _worker(slots)
    return _finishes_per_second(worker, slots, _begin_all(worker, slots))


def _worker(slots: int) -> int:
    """The id of a worker that counts as alive for a day."""
    from queuemgr.base.scheduler_lock import database_now
    from queuemgr.flows.flow import all_queues
    from queuemgr.models import Worker

    now = database_now()
    return Worker.objects.create(
        name="bench", host="bench", pid=1, queues=all_queues(), slots=slots,
        started_at=now, seen_at=now + timedelta(days=1),
    ).pk  # fmt: skip


def _begin_all(worker: int, slots: int) -> list[Grant]:
    """Enqueue some work for each slot, and begin what has a lease."""
    from queuemgr.flows.flow import NewExecution
    from queuemgr.lifecycle import begin, enqueue
    from queuemgr.lifecycle.leases import grants_of
    from queuemgr.models import Lease

    enqueue.enqueue_many("probe", (NewExecution(f"p{n}") for n in range(400 + 90 * slots)))
    leases = list(Lease.objects.values_list("pk", flat=True))
    begin.begin(leases, worker)
    return grants_of(leases)


def _finishes_per_second(worker: int, slots: int, held: list[Grant]) -> float:
    from queuemgr.flows.flow import all_queues
    from queuemgr.flows.outcomes import Done
    from queuemgr.lifecycle import finish
    from queuemgr.lifecycle.dispatch import grant_to
    from queuemgr.lifecycle.scheduler import FreeSlots

    free_slots, finished = FreeSlots(worker, frozenset(all_queues()), slots), 0
    began = time.perf_counter()
    while held:
        ends = [finish.Finish(grant.lease_id, Done()) for grant in held]
        granted = finish.finish_batch(ends, free_slots).granted or grant_to(free_slots, finish.LOCK_WAIT_MS)
        held = granted.assigned
        finished += len(ends)
    return finished / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
