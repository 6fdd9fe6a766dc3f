"""The worker this process belongs to: set once when a Celery worker starts, inherited by its children."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from queuemgr.base import process_state
from queuemgr.scheduling.capacity import Group


@dataclass
class CurrentWorker:
    """The worker's row id, its name and its queues; `draining` is set once it takes no more work."""

    worker_id: int
    name: str
    queues: Group
    parent_pid: int
    sends_events: bool = False
    draining: threading.Event = field(default_factory=threading.Event)


_current: CurrentWorker | None = None


def set_current_worker(worker: CurrentWorker | None) -> None:
    global _current
    _current = worker


process_state.register(lambda: set_current_worker(None))


def get_current_worker() -> CurrentWorker:
    """The worker of this process; raises `RuntimeError` outside of a Celery worker."""
    if _current is None:
        raise RuntimeError("this process is not a Celery worker; steps run in workers only")
    return _current
