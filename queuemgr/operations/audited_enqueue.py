"""Enqueueing by a person is recorded: how much, into which flow, by whom. One audit entry for each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from queuemgr.base.errors import QueueFull
from queuemgr.lifecycle.enqueue import Enqueued
from queuemgr.operations.controls import Actor

Counted = Callable[[Enqueued], Enqueued]
"""To be called with each part that was enqueued; returns it."""


def record_enqueue(flow: str, new: int, by: Actor, **how: Any) -> None:
    if new:
        by.record("enqueue", flow, {}, {"new": new, **how}, affected=new)


@contextmanager
def audited_enqueue(flow: str, by: Actor, **how: Any) -> Iterator[Counted]:
    """Count what is enqueued in this block, and record it however the block ends, with `how`."""
    new = 0

    def counted(part: Enqueued) -> Enqueued:
        nonlocal new
        new += part.new
        return part

    try:
        yield counted
    except QueueFull as full:
        new = max(new, full.new)
        raise
    finally:
        record_enqueue(flow, new, by, **{name: said for name, said in how.items() if said})
