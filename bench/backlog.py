"""Loads a backlog of any size in front of a full fleet, and times one dispatch after another.

The child of `bench.dispatch`. Everything is created by the queue's own functions except most of the rows,
which are copies of the head of each key, made inside the database.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any
from uuid import UUID

from bench.child import answer, request

if TYPE_CHECKING:
    from queuemgr.lifecycle.scheduler import FreeSlots
    from queuemgr.models import Worker

FULL, OPEN = "full", "open"
"""Prefixes of limit keys: those whose cap is used up by a running lease, and those with free capacity."""

WAITED = {FULL: (180, 90), OPEN: (10, 9)}
"""Minutes: how long the first execution of such a key has waited, and within how many after it the last
came."""

ROWS_AT_A_TIME = 200_000
WARM_UP = 5


def load(rows: int, waiting_full: int, held_full: int, open_keys: int, leases: int) -> Any:
    """Fill the fleet, then the queue; returns how many rows wait, how long loading took, and how long the
    first dispatch after it."""
    from django.core.management import call_command

    from bench import played
    from queuemgr.models import Execution
    from queuemgr.operations.controls import Actor, set_limit
    from queuemgr.scheduling import limit_rows

    began = time.perf_counter()
    call_command("migrate", verbosity=0)
    limit_rows.sync()
    by = Actor("bench", "command")
    set_limit(f"{FULL}:*", by, max_running=1)
    set_limit(f"{OPEN}:*", by, max_running=leases)
    played.catch_messages()
    full = [f"{FULL}:{n}" for n in range(held_full)]
    room = [f"{OPEN}:{n % open_keys}" for n in range(leases - held_full)]
    played.hold([*full, *room])
    per_key = max(1, rows // (waiting_full + open_keys))
    _wait_in_line(FULL, waiting_full, per_key)
    _wait_in_line(OPEN, open_keys, per_key)
    _settle_down()
    loaded = time.perf_counter() - began
    first = _finish_once(*_fleet())
    return {"rows": Execution.objects.waiting().count() + 1, "load_seconds": loaded, "first_ms": first}


def _wait_in_line(kind: str, keys: int, per_key: int) -> None:
    """Create executions that wait under each of these keys; the oldest one of each key is enqueued."""
    from bench import played
    from queuemgr.lifecycle.enqueue import enqueue_many
    from queuemgr.models import Execution

    if not keys:
        return
    since, within = WAITED[kind]
    name = f"{kind}-waiting"
    heads = played.probes(name, (f"{kind}:{n}" for n in range(keys)))
    enqueue_many("probe", heads, run_after=played.ago(minutes=since))
    ids = Execution.objects.filter(key__startswith=f"{name}-").order_by("pk")
    first, last = ids.values_list("pk", flat=True)[0], ids.reverse().values_list("pk", flat=True)[0]
    at_a_time = max(1, ROWS_AT_A_TIME // keys)
    for start in range(1, per_key, at_a_time):
        copies = start, min(start + at_a_time, per_key) - 1
        _copy((first, last), copies, within * 60 / per_key)


def _copy(ids: tuple[int, int], copies: tuple[int, int], seconds_apart: float) -> None:
    """Copy the executions with these ids once per number from `copies[0]` to `copies[1]`, each due a little
    later than the one before. All columns except key and time are copied, whatever columns there are."""
    from django.db import connection

    from queuemgr.models import Execution

    differ = {"key": "h.key || '-' || n.n", "run_after": _LATER[connection.vendor]}
    columns = [str(f.column) for f in Execution._meta.concrete_fields if not f.primary_key]
    chosen = ", ".join(differ.get(column, f"h.{column}") for column in columns)
    statement = (
        f"INSERT INTO queuemgr_execution ({', '.join(columns)}) "
        f"{_NUMBERS[connection.vendor]} "
        f"SELECT {chosen} FROM n CROSS JOIN queuemgr_execution h "
        f"WHERE h.id BETWEEN {ids[0]} AND {ids[1]}"
    )
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET synchronous_commit = off")
        cursor.execute(
            statement.replace("<first>", str(copies[0]))
            .replace("<last>", str(copies[1]))
            .replace("<apart>", f"{seconds_apart:.9f}")
        )


_NUMBERS = {
    "postgresql": "WITH n(n) AS (SELECT generate_series(<first>, <last>))",
    "sqlite": "WITH RECURSIVE n(n) AS (SELECT <first> UNION ALL SELECT n + 1 FROM n WHERE n < <last>)",
}
_LATER = {
    "postgresql": "h.run_after + n.n * <apart> * interval '1 second'",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', h.run_after, printf('+%.6f seconds', n.n * <apart>)) || '000'",
}


def _settle_down() -> None:
    """Do now what a server would do by itself in the minutes after such a load."""
    from django.db import connection

    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET synchronous_commit = on")
            cursor.execute("VACUUM ANALYZE")
            cursor.execute("CHECKPOINT")
        else:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def play(repetitions: int) -> Any:
    """Milliseconds of `repetitions` finishes that grant one lease, of as many dispatches that do, and of
    the first finish after a tick."""
    from queuemgr.worker import housekeeping

    worker, held = _fleet()
    for _ in range(WARM_UP):
        _finish_once(worker, held)
        _dispatch_once(worker, held)
    housekeeping.tick()
    return {
        "after_tick": [_finish_once(worker, held)],
        "finish": [_finish_once(worker, held) for _ in range(repetitions)],
        "dispatch": [_dispatch_once(worker, held) for _ in range(repetitions)],
    }


def _fleet() -> tuple[Worker, deque[UUID]]:
    """The simulated worker, and its leases under keys with free capacity, the oldest first."""
    from bench import played
    from queuemgr.models import Lease, Worker

    played.catch_messages()
    played.beat()
    open_leases = Lease.objects.exclude(execution__key__in=_under_full_keys())
    leases = open_leases.order_by("started_at", "execution_id").values_list("pk", flat=True)
    return Worker.objects.get(name=played.NAME), deque(leases)


def _under_full_keys() -> list[str]:
    from queuemgr.models import Lease

    known = Lease.objects.values_list("execution__key", "execution__payload")
    return [key for key, payload in known if str(payload.get("limit_key")).startswith(FULL)]


def _finish_once(worker: Worker, held: deque[UUID]) -> float:
    """Finish a lease; the slot's next lease is granted in the same transaction."""
    from queuemgr.flows.outcomes import Done
    from queuemgr.lifecycle import finish
    from queuemgr.lifecycle.dispatch import grant_to

    ending, free_slots = finish.Finish(held.popleft(), Done()), _one_of(worker)
    began = time.perf_counter()
    finished = finish.finish_batch([ending], free_slots)
    granted = finished.granted or grant_to(free_slots, finish.LOCK_WAIT_MS)
    took = (time.perf_counter() - began) * 1000
    [grant] = granted.assigned
    held.append(grant.lease_id)
    return took


def _dispatch_once(worker: Worker, held: deque[UUID]) -> float:
    """Free a slot without dispatching, then time a dispatch; publishing the message is not included."""
    from django.db import transaction

    from bench.played import sent
    from queuemgr.base.scheduler_lock import database_now
    from queuemgr.flows.outcomes import Done
    from queuemgr.lifecycle import begin, dispatch, finish

    with transaction.atomic():
        finish.finish_leases([finish.Finish(held.popleft(), Done())], database_now())
    sent.clear()
    began = time.perf_counter()
    dispatch.dispatch()
    took = (time.perf_counter() - began) * 1000
    [grant] = sent
    begin.begin([grant.lease_id], worker.pk)
    held.append(grant.lease_id)
    return took


def _one_of(worker: Worker) -> FreeSlots:
    from queuemgr.lifecycle.scheduler import FreeSlots
    from queuemgr.scheduling.capacity import group_of

    return FreeSlots(worker.pk, group_of(worker.queues, has_async=False), 1)


if __name__ == "__main__":
    asked = request(
        "bench.backlog", __doc__, do="load", rows=1000, waiting_full=0, held_full=0, open_keys=10, leases=20
    )
    answer(asked, {"load": load, "play": play})
