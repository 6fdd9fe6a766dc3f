"""Workers: their state, and draining and resuming them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema

from queuemgr.base.errors import BadInput
from queuemgr.operations import workers
from queuemgr.reporting import worker_states
from queuemgr.web.api import schemas
from queuemgr.web.api.auth import actor_of, requires
from queuemgr.web.api.idempotency import idempotent
from queuemgr.web.api.problems import Problem

router = Router(tags=["workers"])


class WorkerStateOut(Schema):
    """One worker. `condition`: `live`, `drained` (by a person: it takes no new work until it is resumed),
    `draining` (it shuts down), `left`, or `gone` without having shut down. `drained` is a sentence."""

    worker: str
    host: str
    condition: str
    slots: int
    busy: int
    queues: list[str]
    started: datetime
    seen: datetime
    drained: str
    drained_at: datetime | None
    drained_by: str
    drain_reason: str


class Workers(Schema):
    workers: list[WorkerStateOut]


class DrainOut(Schema):
    """`changed`: false if it was so already."""

    worker: str
    drained: bool
    changed: bool


@router.get("/workers", response=Workers, **requires("read", "view_worker"))
def list_workers(request: HttpRequest) -> Any:
    """Live workers, and those of the last day that are gone or left."""
    return {"workers": [state._asdict() for state in worker_states.workers()]}


@router.post("/workers/{name}/drain", response=DrainOut, **requires("operate", "drain_worker"))
@idempotent
def drain_worker(request: HttpRequest, name: schemas.Name, given: schemas.WithReason) -> DrainOut:
    """Have a worker take no new work: it stays up and finishes what runs, until it is resumed."""
    full = _find(name)
    changed = workers.drain(full, actor_of(request, given.reason))
    return DrainOut(worker=full, drained=True, changed=changed)


@router.post("/workers/{name}/resume", response=DrainOut, **requires("operate", "drain_worker"))
@idempotent
def resume_worker(request: HttpRequest, name: schemas.Name, given: schemas.WithReason) -> DrainOut:
    """Let a drained worker take work again."""
    full = _find(name)
    changed = workers.resume(full, actor_of(request, given.reason))
    return DrainOut(worker=full, drained=False, changed=changed)


def _find(name: str) -> str:
    try:
        return workers.find(name)
    except BadInput as error:
        raise Problem("not-found", str(error)) from None
