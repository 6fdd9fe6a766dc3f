"""What log records of a step name: its execution, lease, step and worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Django imports this module while it sets up logging, before there are models
    from queuemgr.lifecycle.lease_locks import HeldLease
    from queuemgr.lifecycle.leases import Grant

NO_WORKER = "none"
"""The worker of a lease that none has started."""

_about: ContextVar[tuple[Grant | HeldLease, str] | None] = ContextVar("about", default=None)


@contextmanager
def about(lease: Grant | HeldLease, worker: str) -> Iterator[None]:
    """Have each record made in this context name the lease, its step and the worker."""
    token = _about.set((lease, worker))
    try:
        yield
    finally:
        _about.reset(token)


def fields() -> Mapping[str, str | int]:
    """The fields that name the step of this context, built for each record and not for each step."""
    if (about := _about.get()) is None:
        return {}
    lease, worker = about
    return {
        "execution": lease.execution_id,
        "flow": lease.flow,
        "key": lease.key,
        "phase": lease.phase,
        "step": lease.step,
        "lease": str(lease.lease_id),
        "worker": worker,
    }
