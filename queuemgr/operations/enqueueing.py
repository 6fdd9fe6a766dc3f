"""Enqueueing by a person or a program: which flow it goes into, and one audit entry for each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from queuemgr.base.config import queue_settings
from queuemgr.base.errors import BadInput, QueueFull
from queuemgr.flows.flow import Flow, application_flows, get_flow
from queuemgr.lifecycle.enqueue import Enqueued
from queuemgr.operations.controls import Actor

Counted = Callable[[Enqueued], Enqueued]
"""To be called with each part that was enqueued; returns it."""


def choose_flow(name: str | None) -> Flow:
    """The flow of this name; without one SLUICE_DEFAULT_FLOW, else the only one applications registered, or
    the only one of those that takes items.

    Raises `UnknownFlow` for a name that is not registered, and `BadInput` where one must be named.
    """
    if wanted := name or queue_settings().default_flow:
        return get_flow(wanted)
    flows = application_flows()
    taking = [flow for flow in flows if flow.parse_item]
    if len(taking) == 1:
        return taking[0]
    if len(flows) != 1:
        known = ", ".join(sorted(flow.name for flow in flows)) or "none"
        raise BadInput(f"name a flow, or set SLUICE_DEFAULT_FLOW; registered: {known}")
    return flows[0]


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
