"""Draining and resuming workers by name; the admin, the commands and the API call these.

A drained worker stays up, finishes what it runs and takes nothing new. The drain is of the name: it holds for
a worker started later under it, until it is resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from queuemgr.base import transaction
from queuemgr.base.after_commit import after_commit
from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import clean
from queuemgr.base.scheduler_lock import database_now, hold_scheduler_lock
from queuemgr.lifecycle import leases
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import Worker, WorkerDrain
from queuemgr.operations.controls import REASON_CHARACTERS, Actor

DRAIN, RESUME = "drain worker", "resume worker"
"""The actions of the audit entries."""

NOT_DRAINED = {"is": "takes work"}


def drain(name: str, by: Actor) -> bool:
    """Have the workers of this name take no new work; returns whether they did until now.

    What they have not started is leased to others at once, and what runs is finished: nothing is aborted.
    Raises `BadInput` for a name that no worker has.
    """
    return _set(find(name), by, WorkerDrain(drained_by=by.actor, drain_reason=_cut(by.reason)))


def resume(name: str, by: Actor) -> bool:
    """Let the workers of this name take work again; returns whether they were drained."""
    return _set(find(name), by, None)


def find(name: str) -> str:
    """The full name of a worker; the part before `@` is enough where it is unique. Raises `BadInput` if no
    worker, or several, can be meant."""
    known = {*Worker.objects.values_list("name", flat=True), *drains()}
    found = [name] if name in known else sorted(n for n in known if n.startswith(f"{name}@"))
    if len(found) == 1:
        return found[0]
    if found:
        raise BadInput(f"several workers are called {name!r}: {', '.join(found)}")
    there_are = f"there are: {', '.join(sorted(known))}" if known else "none has ever started"
    raise BadInput(f"no worker is called {name!r}; {there_are}")


def drains() -> dict[str, WorkerDrain]:
    """The drains in force, by the name of the worker."""
    return {drain.name: drain for drain in WorkerDrain.objects.all()}


def serialize(drain: WorkerDrain | None) -> dict[str, Any]:
    """As the values of an audit entry: a sentence for people, and what is needed to restore it."""
    if drain is None:
        return NOT_DRAINED
    since = drain.drained_at.isoformat()
    return {
        "is": drain.sentence, "drained_at": since, "drained_by": drain.drained_by,
        "reason": drain.drain_reason,
    }  # fmt: skip


def now_of(name: str) -> dict[str, Any]:
    """How a worker is drained now, as `serialize` gives it."""
    return serialize(WorkerDrain.objects.filter(name=name).first())


def restore(name: str, by: Actor, values: Mapping[str, Any]) -> None:
    """Drain or resume a worker as `values`, of an earlier audit entry, say it was."""
    drain = None
    if "drained_at" in values:
        drain = WorkerDrain(
            drained_at=datetime.fromisoformat(values["drained_at"]),
            drained_by=values["drained_by"], drain_reason=values["reason"],
        )  # fmt: skip
    _set(name, by, drain)


def _set(name: str, by: Actor, drain: WorkerDrain | None) -> bool:
    """Make this the drain of a name (None: none); returns whether that changed anything."""
    with hold_scheduler_lock() as lock:
        before = WorkerDrain.objects.filter(name=name).first()
        if (before is None) == (drain is None):
            return False
        if drain is None:
            WorkerDrain.objects.filter(name=name).delete()
        else:
            drain.name, drain.drained_at = name, drain.drained_at or lock.now
            drain.save(force_insert=True)
        by.record(DRAIN if drain else RESUME, name, serialize(before), serialize(drain))
        after_commit(partial(_hand_back, name) if drain else dispatch)
    return True


def _hand_back(name: str) -> None:
    """Return what the workers of this name have not started. After the commit, since leases are locked before
    the scheduler lock; what is missed here is handed back by the worker when its message comes."""
    with transaction.atomic():
        now = database_now()
        for queues in Worker.objects.running(now).filter(name=name).values_list("queues", flat=True):
            leases.revoke_unstarted_in(queues)
    dispatch()


def _cut(reason: str) -> str:
    return clean(reason)[:REASON_CHARACTERS]
