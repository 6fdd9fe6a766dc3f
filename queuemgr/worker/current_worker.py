"""The worker this process belongs to: set once when a Celery worker starts, inherited by its children."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from queuemgr.base import process_state
from queuemgr.models import Worker
from queuemgr.scheduling.capacity import Group, async_group_of, group_of
from queuemgr.scheduling.limit_rows import Limits
from queuemgr.worker.queue_consumption import QueueConsumption


@dataclass
class CurrentWorker:
    """The worker this process is, or is a child of: its row as it registered.

    `draining` is set once it shuts down, and `drained` while a person has it take no new work. The process
    that registered has the `consumption` of its queues, and the `limits` that its flows stated then.
    """

    row: Worker
    sends_events: bool = False
    draining: threading.Event = field(default_factory=threading.Event)
    drained: threading.Event = field(default_factory=threading.Event)
    consumption: QueueConsumption | None = None
    limits: Limits | None = None

    @property
    def takes_work(self) -> bool:
        return not (self.draining.is_set() or self.drained.is_set())

    @property
    def worker_id(self) -> int:
        return self.row.pk

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def queues(self) -> Group:
        return Group(self.row.queues)

    @property
    def takes(self) -> Group:
        """What its slots take."""
        return group_of(self.row.queues, has_async=self.row.async_slots > 0)

    @property
    def async_takes(self) -> Group:
        """What its async slots take."""
        return async_group_of(self.row.queues)

    @property
    def consumed(self) -> list[str]:
        """The queues it takes work from now: those it registered with, but for those it lost."""
        lost = self.consumption.lost if self.consumption else frozenset()
        return [queue for queue in self.row.queues if queue not in lost]

    @property
    def parent_pid(self) -> int:
        """The pid of the process that registered."""
        return self.row.pid


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
