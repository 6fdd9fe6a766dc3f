"""Plays executions that pass allowances, and counts the processor time of each.

The child of `bench.limits`. One process plays a worker whose slots all end at once: a real worker's processor
time varies by ten times the differences looked for. The cases alternate every few hundred executions, in one
database.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil

from bench.child import answer, request

if TYPE_CHECKING:  # importing it for real needs Django's settings
    from queuemgr.lifecycle.leases import Grant
    from queuemgr.lifecycle.scheduler import FreeSlots

EXPECTED = {"tokens": 100, "usd": 0.01, "bytes": 1000}
USED = {"tokens": 90, "usd": 0.009, "bytes": 900}
"""Less than expected, so that each end gives back the rest."""


def play(cases: Mapping[str, str], slots: int, rounds: int, executions: int) -> dict[str, list[float]]:
    """Milliseconds of processor for each execution of each round, by case: of this process and its session in
    PostgreSQL, from the start to the end after usage was recorded. `cases`: by name, the allowances of the
    limit that its executions pass, beside the fleet's."""
    free_slots = _set_up(cases, slots)
    used: dict[str, list[float]] = {name: [] for name in cases}
    for name in cases:
        _play(name, executions, free_slots)  # prepares statements
    for _ in range(rounds):
        for name in cases:
            used[name].append(_play(name, executions, free_slots))
    _check_they_were_charged(cases)
    return used


def _check_they_were_charged(cases: Mapping[str, str]) -> None:
    from queuemgr.models import AllowanceUsage

    charged = set(AllowanceUsage.objects.filter(spent__gt=0).values_list("limit", flat=True))
    if missing := [name for name in cases if f"key:{name}" not in charged]:
        raise RuntimeError(f"nothing was charged to {', '.join(missing)}")


def _set_up(cases: Mapping[str, str], slots: int) -> FreeSlots:
    """A migrated database with a limit for each case, and a worker with free slots."""
    from django.core.management import call_command

    from bench import played
    from queuemgr.base.scheduler_lock import database_now
    from queuemgr.flows.flow import all_queues
    from queuemgr.lifecycle.scheduler import FreeSlots
    from queuemgr.models import Worker
    from queuemgr.operations.controls import Actor, set_limit
    from queuemgr.scheduling.capacity import group_of
    from queuemgr.scheduling.limit_rows import sync

    call_command("migrate", verbosity=0)
    sync()
    bench = Actor("bench", "command")
    set_limit("fleet", bench, max_running=0)
    for name, allowances in cases.items():
        set_limit(f"key:{name}", bench, max_running=0, allowances=allowances)
    played.catch_messages()
    now, queues = database_now(), all_queues()
    worker = Worker.objects.create(
        name=played.NAME, host=played.NAME, pid=1, queues=queues, slots=slots, started_at=now, seen_at=now
    )
    return FreeSlots(worker.pk, group_of(queues, has_async=False), slots)


def _play(case: str, executions: int, free_slots: FreeSlots) -> float:
    """Enqueue executions of this case, and run them all; only running them is measured."""
    from bench import played
    from queuemgr.lifecycle.enqueue import enqueue_many

    keys = [f"key:{case}"] * executions
    enqueue_many("probe", played.probes(f"{case}-{time.monotonic_ns()}", keys, uses=EXPECTED))
    played.beat()
    began = _processor_seconds()
    done = sum(_run_all(free_slots))
    if done != executions:
        raise RuntimeError(f"{done} of {executions} executions could be run")
    return 1e3 * (_processor_seconds() - began) / executions


def _run_all(free_slots: FreeSlots) -> Iterator[int]:
    """Run what waits, as many at once as there are slots; yields how many each time."""
    from queuemgr.flows.outcomes import Done
    from queuemgr.lifecycle import finish
    from queuemgr.lifecycle.dispatch import grant_to

    grants = _first(free_slots)
    while grants:
        _record_usage(grants)
        ended = finish.finish_batch([finish.Finish(grant.lease_id, Done()) for grant in grants], free_slots)
        yield len(grants)
        grants = (ended.granted or grant_to(free_slots, finish.LOCK_WAIT_MS)).assigned


def _first(free_slots: FreeSlots) -> list[Grant]:
    """What was given to the free slots when it was enqueued."""
    from queuemgr.lifecycle import begin
    from queuemgr.models import Lease

    return list(begin.begin(list(Lease.objects.values_list("pk", flat=True)), free_slots.worker_id).grants)


def _record_usage(grants: list[Grant]) -> None:
    from queuemgr.base import meters
    from queuemgr.lifecycle import leases

    for grant in grants:
        leases.record_usage(grant.lease_id, meters.as_text(meters.stored(USED), zeros=True))


def _processor_seconds() -> float:
    return time.process_time() + _session_seconds()


def _session_seconds() -> float:
    """Of the process of PostgreSQL that serves this one; 0 with SQLite."""
    from queuemgr.base import sql
    from queuemgr.base.queue_database import connection

    if connection.vendor != "postgresql":
        return 0.0
    with suppress(psutil.NoSuchProcess):
        times = psutil.Process(int(sql.value("SELECT pg_backend_pid()"))).cpu_times()
        return float(times.user + times.system)
    return 0.0


if __name__ == "__main__":
    example: dict[str, Any] = {"cases": {"none": ""}, "slots": 8, "rounds": 3, "executions": 400}
    answer(request("bench.allowed", __doc__, do="play", **example), {"play": play})
