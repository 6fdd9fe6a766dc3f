"""What log records of a step name (its execution, lease, step and worker), and its last ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # Django imports this module while it sets up logging, before there are models
    from queuemgr.lifecycle.lease_locks import HeldLease
    from queuemgr.lifecycle.leases import Grant

NO_WORKER = "none"
"""The worker of a lease that none has started."""

MOST_LINES = 100


class LogLine(NamedTuple):
    created: float
    level: str
    logger: str
    message: str


_about: ContextVar[tuple[Grant | HeldLease, str, deque[LogLine]] | None] = ContextVar("about", default=None)


@contextmanager
def about(lease: Grant | HeldLease, worker: str) -> Iterator[None]:
    """Have each record made in this context name the lease, its step and the worker."""
    token = _about.set((lease, worker, deque(maxlen=MOST_LINES)))
    try:
        yield
    finally:
        _about.reset(token)


def lines() -> deque[LogLine] | None:
    """The last records of this context, to read and to add to; None outside any."""
    return found[2] if (found := _about.get()) else None


def fields() -> Mapping[str, str | int]:
    """The fields that name the step of this context, built for each record and not for each step."""
    if (about := _about.get()) is None:
        return {}
    lease, worker, _ = about
    return {
        "execution": lease.execution_id,
        "flow": lease.flow,
        "key": lease.key,
        "phase": lease.phase,
        "step": lease.step,
        "lease": str(lease.lease_id),
        "worker": worker,
    }
