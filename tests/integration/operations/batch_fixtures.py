"""Batches of probes, and what has become of their members."""

from __future__ import annotations

from typing import Any

import pytest

from queuemgr.flows.flow import NewExecution
from queuemgr.flows.outcomes import Failed
from queuemgr.models import Batch
from queuemgr.operations import batches
from queuemgr.operations.controls import Actor

needs_two_connections = pytest.mark.only_on("postgres", why="needs two connections")

ANN = Actor("ann", "test", "because")
BROKEN = Failed("not_found", "404")


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
