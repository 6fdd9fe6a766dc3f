"""`python -m bench.finish`: finishes per second on PostgreSQL, with and without prepared statements.

No Celery and no messages: the benchmark simulates one worker whose slots all end no-op probes at once, so
that only the transaction is timed that finishes leases and grants the next ones. The two alternate, round
by round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from statistics import median
from typing import TYPE_CHECKING

import psutil

from bench import command_line
from bench.child import ROOT
from bench.contestants import fresh, servers

if TYPE_CHECKING:  # importing it for real needs Django's settings
    from queuemgr.lifecycle.leases import Grant

BATCHES = (1, 8, 50)
STORM = 256
"""Endings in one transaction, as many as a worker process puts into one."""

NEVER = 1_000_000_000
"""Uses of a statement before it is prepared: so many that it never is."""


def main() -> None:
    parser = command_line.parser("bench.finish", __doc__, "--rounds 3", "--storm", "--rounds 1 --json")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs (default 5)")
    parser.add_argument(
        "--storm", action="store_true", help=f"{STORM} failures at once beside {STORM} successes"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the figures as JSON, of prepared ones only"
    )
    parser.add_argument("--play", type=int, metavar="SLOTS", help=argparse.SUPPRESS)
    parser.add_argument("--play-storm", type=int, metavar="ROUNDS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        print(json.dumps(played(options.play)))
    elif options.play_storm:
        print(json.dumps(play_storm(options.play_storm)))
    elif options.json:
        print(json.dumps(figures(options.rounds)))
    elif options.storm:
        compare_storm(options.rounds)
    else:
        compare(options.rounds)


def figures(rounds: int) -> dict[str, dict[str, float]]:
    """Of so many leases ended at once: finishes a second, and milliseconds of processor of the process and of
    PostgreSQL for each; medians."""
    found: dict[str, dict[str, float]] = {}
    with servers() as (_, postgres, root):
        for slots in BATCHES:
            data = str(root / "data")
            runs = [json.loads(_play(["--play", str(slots)], fresh(postgres), data)) for _ in range(rounds)]
            found[f"{slots} at once"] = {name: median(run[name] for run in runs) for name in runs[0]}
    return found


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


def compare_storm(rounds: int) -> None:
    """Print the milliseconds of both, and the ratio of each round."""
    with servers() as (_, postgres, root):
        done = _play(["--play-storm", str(rounds)], fresh(postgres), str(root / "data"))
    pairs = [(ok, failed) for ok, failed in json.loads(done)]
    ratios = [failed / ok for ok, failed in pairs]
    print(
        f"{STORM} at once: {median(p[0] for p in pairs) * 1000:,.0f} ms of successes, "
        f"{median(p[1] for p in pairs) * 1000:,.0f} ms of failures, "
        f"ratio {median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})"
    )


def _run(slots: int, database_url: str, data: str) -> float:
    return float(json.loads(_play(["--play", str(slots)], database_url, data))["finishes_per_second"])


def _play(options: list[str], database_url: str, data: str) -> bytes:
    environment = {
        **os.environ, "DATABASE_URL": database_url, "SLUICE_DATA_DIR": data,
        "SLUICE_MAX_WORKERS": str(2 * STORM), "SLUICE_MAX_PREP": "0",
    }  # fmt: skip
    command = [sys.executable, "-m", "bench.finish", *options]
    return subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def play_storm(rounds: int) -> list[tuple[float, float]]:
    """Seconds in which as many leases are ended at once with success, and with failures whose messages
    differ; both in turn, `rounds` times."""
    set_up()
    from queuemgr.flows.outcomes import Done, Failed, Result
    from queuemgr.lifecycle import finish

    worker, rounds_so_far = _worker(STORM), count()

    def end_all(outcome: Callable[[int], Result]) -> float:
        beat()
        grants = _begin_all(worker, STORM, f"{next(rounds_so_far)}-")
        if len(grants) != STORM:
            raise RuntimeError(f"{len(grants)} of {STORM} leases were granted")
        endings = [finish.Finish(grant.lease_id, outcome(n)) for n, grant in enumerate(grants)]
        began = time.perf_counter()
        finish.finish_batch(endings, None)
        return time.perf_counter() - began

    return [
        (
            end_all(lambda n: Done()),
            end_all(lambda n: Failed("bad_answer", f"item {n} is not as it should be")),
        )
        for _ in range(rounds)
    ]


def played(slots: int) -> dict[str, float]:
    """Finishes per second of one worker with `slots` slots that all end at the same time, and milliseconds of
    processor for each, of this process and of its session in PostgreSQL."""
    set_up()
    from queuemgr.base import scheduler_lock

    worker = _worker(slots)
    held = _begin_all(worker, 400 + 90 * slots)
    server, holds = _session(), list[float]()
    scheduler_lock.note_holds_with(holds.append)
    began, ours, theirs = time.perf_counter(), time.process_time(), _used_by(server)
    finished = _finish_all(worker, slots, held)
    seconds = time.perf_counter() - began
    return {
        "finishes_per_second": finished / seconds,
        "processor_ms.worker": 1e3 * (time.process_time() - ours) / finished,
        "processor_ms.database": 1e3 * (_used_by(server) - theirs) / finished,
        "lock_hold_ms": 1e3 * median(holds),
    }


def _session() -> psutil.Process:
    """The process of PostgreSQL that serves this one."""
    from queuemgr.base import sql

    return psutil.Process(int(sql.value("SELECT pg_backend_pid()")))


def _used_by(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def set_up() -> None:
    """A migrated database, and nobody to send messages to."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    from django.core.management import call_command

    from bench import played
    from queuemgr.scheduling import limit_rows

    call_command("migrate", verbosity=0)
    limit_rows.sync()
    played.catch_messages()


def _worker(slots: int) -> int:
    """The id of a worker that has just had a heartbeat."""
    from queuemgr.base.scheduler_lock import database_now
    from queuemgr.flows.flow import all_queues
    from queuemgr.models import Worker

    now = database_now()
    return Worker.objects.create(
        name="bench", host="bench", pid=1, queues=all_queues(), slots=slots,
        started_at=now, seen_at=now,
    ).pk  # fmt: skip


def beat() -> None:
    """A heartbeat of the worker, if the last was a while ago: only one that is alive gets work."""
    from queuemgr.base.scheduler_lock import database_now
    from queuemgr.models import Worker

    now = database_now()
    Worker.objects.filter(seen_at__lt=now - timedelta(seconds=10)).update(seen_at=now)


def _begin_all(worker: int, executions: int, prefix: str = "p") -> list[Grant]:
    """Enqueue so much work, and begin what has a lease."""
    from queuemgr.flows.flow import NewExecution
    from queuemgr.lifecycle import begin, enqueue
    from queuemgr.lifecycle.leases import grants_of
    from queuemgr.models import Lease

    enqueue.enqueue_many("probe", (NewExecution(f"{prefix}{n}") for n in range(executions)))
    leases = list(Lease.objects.values_list("pk", flat=True))
    begin.begin(leases, worker)
    return grants_of(leases)


def _finish_all(worker: int, slots: int, held: list[Grant]) -> int:
    """End these and all that follow; returns how many."""
    from queuemgr.flows.flow import all_queues
    from queuemgr.flows.outcomes import Done
    from queuemgr.lifecycle import finish
    from queuemgr.lifecycle.dispatch import grant_to
    from queuemgr.lifecycle.scheduler import FreeSlots
    from queuemgr.scheduling.capacity import group_of

    free_slots, finished = FreeSlots(worker, group_of(all_queues(), has_async=False), slots), 0
    beat_at = time.perf_counter() + 5
    while held:
        if time.perf_counter() > beat_at:
            beat_at += 5
            beat()
        ends = [finish.Finish(grant.lease_id, Done()) for grant in held]
        granted = finish.finish_batch(ends, free_slots).granted or grant_to(free_slots, finish.LOCK_WAIT_MS)
        held = granted.assigned
        finished += len(ends)
    return finished


if __name__ == "__main__":
    main()
