"""One thread per worker process: renews every lease it runs, hears of cancels, shows it is alive.

A lease that is gone when it should be renewed (we were frozen, or cut off) aborts its step: what it
makes can no longer be stored.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import connection, transaction

from queuemgr.base.config import queue_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.lifecycle.leases import lease_expiry
from queuemgr.models import Lease, Worker
from queuemgr.worker import housekeeping
from queuemgr.worker.current_worker import CurrentWorker

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""How often a process asks whether one of its leases was cancelled, or its worker told to stop."""

SHUTDOWN, CANCELLED, LOST = "shutdown", "cancelled", "lease lost"


class Heartbeat:
    """The leases this process runs, each with its abort signal, and the thread that keeps them."""

    def __init__(self, worker: CurrentWorker, *, is_parent: bool) -> None:
        self._worker = worker
        self._is_parent = is_parent
        self._running: dict[UUID, AbortSignal] = {}
        self._stopped = threading.Event()
        self._next_renewal = 0.0
        self._next_sign = 0.0
        self._next_tick = 0.0
        threading.Thread(target=self._beat, name="sluice-heartbeat", daemon=True).start()

    @contextmanager
    def keeping(self, lease_id: UUID) -> Iterator[AbortSignal]:
        """Keep this lease alive while the block runs; yields the signal that may abort it."""
        signal = AbortSignal()
        self._running[lease_id] = signal
        try:
            yield signal
        finally:
            self._running.pop(lease_id, None)

    def stop(self) -> None:
        self._stopped.set()

    def _beat(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            try:
                self._once()
            except DatabaseError as error:
                logger.warning("heartbeat: database does not answer (%s)", error)
                connection.close()
            except Exception:
                logger.exception("heartbeat failed; it goes on")
        connection.close()

    def _once(self) -> None:
        if not self._is_parent and os.getppid() != self._worker.parent_pid:
            self._abort_all(SHUTDOWN)
        self._hear()
        config, now = queue_settings(), time.monotonic()
        if now >= self._next_renewal:
            self._next_renewal = now + config.heartbeat_seconds
            self.renew()
        if self._is_parent and now >= self._next_sign:
            self._next_sign = now + config.worker_heartbeat_seconds
            Worker.objects.filter(pk=self._worker.worker_id).update(seen_at=database_now())
        if self._is_parent and now >= self._next_tick:
            self._next_tick = now + max(config.poll_interval, config.heartbeat_seconds / 3)
            housekeeping.tick_if_overdue()

    def renew(self) -> None:
        """Lengthen every lease this process runs; abort the steps of those that are gone."""
        mine = list(self._running)
        if not mine:
            return
        until = lease_expiry(database_now(), started=True)
        held = Lease.objects.filter(pk__in=mine, worker_id=self._worker.worker_id)
        with transaction.atomic():
            list(held.order_by("pk").select_for_update().values_list("pk"))  # as endings take them
            renewed = held.update(expires_at=until)
        if renewed != len(mine):
            still = set(held.values_list("pk", flat=True))
            for lease_id in set(mine) - still:
                self._abort(lease_id, LOST)

    def _hear(self) -> None:
        mine = list(self._running)
        if mine:
            cancelled = Lease.objects.filter(pk__in=mine).exclude(cancel_requested_by="")
            for lease_id in cancelled.values_list("pk", flat=True):
                self._abort(lease_id, CANCELLED)
        self._hear_of_shutdown()

    def _hear_of_shutdown(self) -> None:
        told = Worker.objects.filter(pk=self._worker.worker_id).values_list(
            "draining_at", flat=True
        )
        draining_at = told.first()
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
        signal = self._running.get(lease_id)
        if signal is not None:
            signal.abort(reason)
