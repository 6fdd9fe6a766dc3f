"""Batches of probes, and what has become of their members."""

from __future__ import annotations

from typing import Any

import pytest

from queuemgr.flows.call import Call
from queuemgr.flows.flow import NewExecution
from queuemgr.flows.outcomes import Failed
from queuemgr.models import Batch, Execution
from queuemgr.operations import batches
from queuemgr.operations.controls import Actor

needs_two_connections = pytest.mark.only_on("postgres", why="needs two connections")

ANN = Actor("ann", "test", "because")
BROKEN = Failed("not_found", "404")
EVENTS = ("on_complete", "on_success", "on_failure")


def made(name: str = "b", keys: str = "", **rules: Any) -> Batch:
    """A batch of probes of these keys, on its way."""
    batch = batches.open_batch(name, "probe", ANN, **rules)
    batches.add(batch, [NewExecution(key) for key in keys.split()])
    return batch


def states(batch: Batch) -> dict[str, str]:
    return dict(batch.executions.order_by("batch_seq").values_list("key", "state"))


def held(batch: Batch) -> list[str]:
    rows = batch.executions.waiting().filter(run_after=None).order_by("batch_seq")
    return list(rows.values_list("key", flat=True))


def calling(name: str = "b", keys: str = "", close: bool = True, **rules: Any) -> Batch:
    """A batch of probes that calls a probe at each event, its key the name of the event."""
    calls = {event: Call("probe", {"event": event}, f"{name}:{event}") for event in EVENTS}
    batch = made(name, keys, callbacks=calls, **rules)
    if close:
        batches.close(batch, ANN)
    return batch


def fired(name: str = "b") -> set[str]:
    """The events whose execution is there."""
    keys = Execution.objects.filter(batch=None, key__startswith=f"{name}:").values_list("key", flat=True)
    return {key.removeprefix(f"{name}:") for key in keys}


def is_complete(batch: Batch) -> bool | None:
    """Whether it has succeeded, if it has completed."""
    batch.refresh_from_db()
    return batch.succeeded
