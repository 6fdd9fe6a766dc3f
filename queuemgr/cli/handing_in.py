"""Handing in work by command leaves a row in the record of changes: how much, into what, by whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from queuemgr.cli.output import by_command
from queuemgr.controls import record_handed_in
from queuemgr.enqueue import Enqueued
from queuemgr.errors import QueueFull

Counted = Callable[[Enqueued], Enqueued]
"""To be called with each part that was enqueued, which it gives back."""


@contextmanager
def handing_in(flow: str, options: Mapping[str, Any], batch: str = "") -> Iterator[Counted]:
    """Count what is enqueued in here, and record it however this ends."""
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
        how = {"priority": options["priority"], **({"batch": batch} if batch else {})}
        record_handed_in(flow, new, by_command(), **how)
