"""Sets limits and enqueues probes under them, for a worker that is started afterwards.

The child of `bench.limits`.
"""

from __future__ import annotations

from typing import Any

from bench.child import answer, request

WAITING_BEHIND = 2
"""Executions that wait under each saturated key, and still wait at the end."""


def prepare(
    limits: dict[str, dict[str, Any]], keys: int, saturated: int, count: int, seconds: float, trace: str = ""
) -> Any:
    """Migrate a database, set these limits and enqueue probes over the keys with free capacity; returns the
    fields of a limit that this version does not have, in which case nothing is enqueued."""
    from django.core.management import call_command

    from bench import played
    from queuemgr.lifecycle.enqueue import enqueue_many
    from queuemgr.models import Limit
    from queuemgr.operations.controls import Actor, set_limit
    from queuemgr.scheduling.limit_rows import sync

    known = {field.name for field in Limit._meta.concrete_fields}
    unknown = sorted({name for values in limits.values() for name in values} - known)
    if unknown:
        return {"unknown": unknown}
    call_command("migrate", verbosity=0)
    sync()
    for name, values in limits.items():
        set_limit(name, Actor("bench", "command"), **values)
    played.catch_messages()
    names = [f"key:{n}" for n in range(keys)] or [""]
    full, room = names[:saturated], names[saturated:]
    if full:
        played.hold(full)
        enqueue_many("probe", played.probes("behind", full * WAITING_BEHIND))
    over = (room[n % len(room)] for n in range(count))
    payload: dict[str, Any] = {"seconds": seconds} if seconds else {}
    payload |= {"trace": trace} if trace else {}
    enqueue_many("probe", played.probes("timed", over, **payload))
    return {"unknown": []}


if __name__ == "__main__":
    asked = request(
        "bench.limited", __doc__, do="prepare", limits={}, keys=10, saturated=0, count=100, seconds=0
    )
    answer(asked, {"prepare": prepare})
