"""One thread per worker process that renews its leases and updates the worker's heartbeat.

It also polls for cancellations and drain requests, and runs an overdue tick. When a lease turns out to
be gone (the process was frozen, or cut off from the database) its step is aborted: the step could no
longer store a result.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import connection

from queuemgr.base.config import queue_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.lifecycle import leases, log_context, redispatch_timer
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Lease, Worker
from queuemgr.worker import housekeeping, worker_row
from queuemgr.worker.current_worker import CurrentWorker

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""Seconds between two polls for cancelled leases and for a request to drain this worker."""

SHUTDOWN, CANCELLED, LOST = "shutdown", "cancelled", "lease lost"


class RunningStep(NamedTuple):
    """A step this process runs, and the signal that aborts it."""

    grant: Grant
    signal: AbortSignal


class Heartbeat:
    """The steps this process runs, and the thread that renews their leases."""

    def __init__(self, worker: CurrentWorker, *, is_parent: bool) -> None:
        self._worker = worker
        self._is_parent = is_parent
        self._running: dict[UUID, RunningStep] = {}
        self._next_renewal = 0.0
        self._next_heartbeat = 0.0
        self._next_tick = 0.0
        threading.Thread(target=self._run, name="sluice-heartbeat", daemon=True).start()

    @contextmanager
    def renewing(self, grant: Grant) -> Iterator[AbortSignal]:
        """Renew this lease while the block runs; yields the signal that aborts its step."""
        signal = AbortSignal()
        self._running[grant.lease_id] = RunningStep(grant, signal)
        try:
            yield signal
        finally:
            self._running.pop(grant.lease_id, None)

    def _run(self) -> None:
        while True:
            time.sleep(POLL_SECONDS)
            try:
                self._tick()
            except DatabaseError as error:
                logger.warning("heartbeat: database does not answer (%s)", error)
                connection.close()
            except Exception:  # the thread must continue: without renewals every lease expires
                logger.exception("heartbeat failed; trying again in %g s", POLL_SECONDS)

    def _tick(self) -> None:
        if not self._is_parent and os.getppid() != self._worker.parent_pid:
            self._abort_all(SHUTDOWN)
        self._poll_cancellations()
        self._poll_drain_request()
        if self._is_parent:
            redispatch_timer.look_at_parked_routes()
        config, now = queue_settings(), time.monotonic()
        if now >= self._next_renewal:
            self._next_renewal = now + config.heartbeat_seconds
            self.renew()
        if self._is_parent and now >= self._next_heartbeat:
            self._next_heartbeat = now + config.worker_heartbeat_seconds
            worker_row.beat(self._worker)
        if self._is_parent and now >= self._next_tick:
            self._next_tick = now + max(config.poll_interval, config.heartbeat_seconds / 3)
            housekeeping.tick_if_overdue()

    def renew(self) -> None:
        """Extend every lease this process runs; abort the steps of leases that are gone."""
        mine = list(self._running)
        if not mine:
            return
        for lease_id in leases.renew(mine, self._worker.worker_id, database_now()):
            self._abort(lease_id, LOST)

    def _poll_cancellations(self) -> None:
        mine = list(self._running)
        if mine:
            cancelled = Lease.objects.filter(pk__in=mine).exclude(cancel_requested_by="")
            for lease_id in cancelled.values_list("pk", flat=True):
                self._abort(lease_id, CANCELLED)

    def _poll_drain_request(self) -> None:
        row = Worker.objects.filter(pk=self._worker.worker_id)
        draining_at = row.values_list("draining_at", flat=True).first()
        if draining_at is None:
            return
        self._worker.draining.set()
        grace = timedelta(seconds=queue_settings().shutdown_grace)
        if database_now() >= draining_at + grace:
            self._abort_all(SHUTDOWN)

    def _abort_all(self, reason: str) -> None:
        for lease_id in list(self._running):
            self._abort(lease_id, reason)

    def _abort(self, lease_id: UUID, reason: str) -> None:
        running = self._running.get(lease_id)
        if running is None or running.signal.aborted:
            return
        with log_context.about(running.grant, self._worker.name):
            logger.warning("lease %s: aborting its step (%s)", lease_id, reason)
        running.signal.abort(reason)
