"""`python -m bench.fan_in`: what it costs that a batch completes, with many members ending at once, on
PostgreSQL.

No Celery and no messages: several processes play workers that end no-op probes as fast as they can, whose
slots are granted the next ones in the same transaction. The same work in no batch, in a batch, and in a batch
with callbacks, in turn; at the end the executions of the callbacks are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench import command_line
from bench.child import ROOT
from bench.contestants import fresh, servers
from bench.finish import beat, set_up

KINDS = ("no batch", "a batch", "a batch with callbacks")
EVENTS = ("on_complete", "on_success", "on_failure")
AT_ONCE = 50
"""Members that one process ends in one transaction."""

BEAT_SECONDS = 5


@dataclass(frozen=True)
class Run:
    """A run of one kind: members ended per second of all processes, their processor microseconds for each,
    and how many executions each callback has."""

    rate: float
    cpu: float
    fired: dict[str, int]


def main() -> None:
    parser = command_line.parser("bench.fan_in", __doc__, "--members 100000", "--workers 8 --rounds 1")
    parser.add_argument("--members", type=int, default=10_000, help="of each batch (default 10,000)")
    parser.add_argument("--workers", type=int, default=4, help="processes that end them (default 4)")
    parser.add_argument("--rounds", type=int, default=3, help="of all kinds in turn (default 3)")
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fill", metavar="KIND", help=argparse.SUPPRESS)
    parser.add_argument("--play", type=int, metavar="NUMBER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill:
        fill(options.fill, options.members)
    elif options.count:
        print(json.dumps(fired()))
    elif options.play is not None:
        print(json.dumps(play(options.play)))
    else:
        compare(options)


def compare(options: argparse.Namespace) -> None:
    """Print the cost of each kind, its ratio to that of no batch, and what has fired."""
    runs: dict[str, list[Run]] = {kind: [] for kind in KINDS}
    with servers() as (_, postgres, root):
        for _ in range(options.rounds):
            for kind in KINDS:
                runs[kind].append(_run(kind, options, fresh(postgres), str(root / "data")))
    for kind in KINDS:
        ratios = [run.cpu / plain.cpu for run, plain in zip(runs[kind], runs[KINDS[0]], strict=True)]
        counts = [run.fired for run in runs[kind]]
        print(
            f"{kind}: {median(run.rate for run in runs[kind]):,.0f} members/s, "
            f"{median(run.cpu for run in runs[kind]):,.0f} us of processor each, "
            f"ratio {median(ratios):.3f} ({min(ratios):.3f} - {max(ratios):.3f}), fired {counts[0]}"
        )
        if any(each != counts[0] for each in counts):
            raise SystemExit(f"not all rounds fired the same: {counts}")


def _run(kind: str, options: argparse.Namespace, database_url: str, data: str) -> Run:
    environment = {
        **os.environ, "DATABASE_URL": database_url, "SLUICE_DATA_DIR": data,
        "SLUICE_MAX_WORKERS": str(AT_ONCE * options.workers), "SLUICE_MAX_PREP": "0",
    }  # fmt: skip

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "bench.fan_in", "--members", str(options.members), *arguments]
        return subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE)

    if start("--fill", kind).wait():
        raise SystemExit("the batch could not be filled")
    players = [start("--play", str(number)) for number in range(options.workers)]
    said = [json.loads(player.communicate()[0]) for player in players]
    counted = json.loads(start("--count").communicate()[0])
    ended = sum(each["ended"] for each in said)
    seconds = max(each["until"] for each in said) - min(each["since"] for each in said)
    return Run(ended / seconds, 1e6 * sum(each["cpu"] for each in said) / ended, counted)


def fill(kind: str, members: int) -> None:
    """Enqueue the members, in a closed batch if they are in one."""
    set_up()
    from queuemgr.flows.call import Call
    from queuemgr.flows.flow import NewExecution
    from queuemgr.lifecycle.enqueue import enqueue_many
    from queuemgr.operations import batches

    items = (NewExecution(f"m{number}") for number in range(members))
    if kind == KINDS[0]:
        enqueue_many("probe", items)
        return
    calls = {event: Call("probe", key=event) for event in EVENTS} if kind == KINDS[2] else {}
    batch = batches.open_batch("fan in", "probe", None, callbacks=calls)
    batches.add(batch, items)
    batches.close(batch, None)


def play(number: int) -> dict[str, Any]:
    """One worker that ends whatever it is granted, until nothing is left."""
    set_up()
    from queuemgr.base.scheduler_lock import database_now
    from queuemgr.flows.flow import all_queues
    from queuemgr.flows.outcomes import Done
    from queuemgr.lifecycle import finish
    from queuemgr.lifecycle.dispatch import grant_to
    from queuemgr.lifecycle.scheduler import FreeSlots
    from queuemgr.models import Execution, Worker
    from queuemgr.scheduling.capacity import group_of

    now = database_now()
    row = Worker.objects.create(
        name=f"bench {number}", host="bench", pid=number, queues=all_queues(), slots=AT_ONCE,
        started_at=now, seen_at=now,
    )  # fmt: skip
    free_slots, ended = FreeSlots(row.pk, group_of(all_queues(), has_async=False), AT_ONCE), 0
    since, cpu = time.time(), time.process_time()
    beat_at = since + BEAT_SECONDS
    held = _taken(row.pk)
    while held or Execution.objects.unfinished().exists():
        if time.time() > beat_at:
            beat_at += BEAT_SECONDS
            beat()
        ends = [finish.Finish(grant.lease_id, Done()) for grant in held]
        granted = finish.finish_batch(ends, free_slots).granted if ends else None
        granted = granted or grant_to(free_slots, finish.LOCK_WAIT_MS)
        held = granted.assigned or _taken(row.pk)
        ended += len(ends)
    until, cpu = time.time(), time.process_time() - cpu
    return {"ended": ended, "since": since, "until": until, "cpu": cpu}


def fired() -> dict[str, int]:
    """The executions of each callback, and members without an end."""
    set_up()
    from queuemgr.models import Execution

    counts = {event: Execution.objects.filter(key__startswith=event).count() for event in EVENTS}
    return {**counts, "unfinished": Execution.objects.unfinished().count()}


def _taken(worker: int) -> list[Any]:
    """Leases that were granted to nobody's slot in particular, begun as if their messages had come."""
    from queuemgr.lifecycle import begin
    from queuemgr.lifecycle.dispatch import dispatch
    from queuemgr.lifecycle.lease_locks import RowsBusy
    from queuemgr.models import Lease

    dispatch()
    unstarted = list(Lease.objects.unstarted().values_list("pk", flat=True)[:AT_ONCE])
    try:
        return begin.begin(unstarted, worker).grants
    except RowsBusy:  # another process is beginning some of them
        return []


if __name__ == "__main__":
    main()
