"""Workers: their state, and draining and resuming them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema

from queuemgr.base.errors import BadInput
from queuemgr.operations import workers
from queuemgr.reporting import worker_states
from queuemgr.reporting.worker_states import WorkerState
from queuemgr.web.api import schemas
from queuemgr.web.api.auth import actor_of, requires
from queuemgr.web.api.idempotency import idempotent
from queuemgr.web.api.problems import Problem

router = Router(tags=["workers"])


class Workers(Schema):
    workers: list[WorkerState]


class DrainOut(Schema):
    """`changed`: false if it was so already."""

    worker: str
    drained: bool
    changed: bool


@router.get("/workers", response=Workers, **requires("read", "view_worker"))
def list_workers(request: HttpRequest) -> Any:
    """Live workers, and those of the last day that are gone or left."""
    return {"workers": worker_states.workers()}


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
