"""Two threads per worker process: one is the worker's sign of life and hears what is asked of its steps, one
stands in for beat.

The first polls for cancellations and drain requests every second. The second looks for expired leases and
runs an overdue tick; it may wait for the scheduler lock or the broker, and holds nobody up.
"""

from __future__ import annotations

import logging
import os
import time
from datetime import timedelta

from celery import current_app
from django.db import DatabaseError

from queuemgr.base import sql
from queuemgr.base.config import queue_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle import periodic_jobs, redispatch_timer
from queuemgr.models import Lease
from queuemgr.worker import (
    background_thread,
    drain_orders,
    dropped_messages,
    expiry,
    housekeeping,
    worker_row,
)
from queuemgr.worker.current_worker import CurrentWorker
from queuemgr.worker.running_steps import CANCELLED, SHUTDOWN, RunningSteps

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""Seconds between two polls for cancelled leases and for a request to drain this worker."""


class Heartbeat:
    """Updates the worker's heartbeat (in its parent process), and aborts what others ask to abort."""

    def __init__(self, worker: CurrentWorker, steps: RunningSteps, *, is_parent: bool) -> None:
        self._worker, self._steps, self._is_parent = worker, steps, is_parent
        self._next_heartbeat = 0.0
        background_thread.repeat("sluice-heartbeat", self.poll)

    def poll(self) -> float:
        if not self._is_parent and os.getppid() != self._worker.parent_pid:
            self._steps.abort_all(SHUTDOWN)
        regained = self._look_at_consumption()
        if self._is_parent and time.monotonic() >= self._next_heartbeat:
            self._beat()
        if regained:
            redispatch_timer.schedule_redispatch(0.0)
        self._poll_cancellations()
        self._poll_drain_request()
        if self._is_parent:
            redispatch_timer.look_at_parked_routes()
            dropped_messages.report()
        return POLL_SECONDS

    def _look_at_consumption(self) -> bool:
        """What it has lost, or has again, is stated at once; returns whether it has queues again."""
        consumption = self._worker.consumption
        if consumption is None or not self._worker.takes_work:
            return False
        before = consumption.lost
        consumption.look()
        if consumption.lost != before:
            self._next_heartbeat = 0.0
            lost = ", ".join(sorted(consumption.lost)) or "nothing"
            logger.warning("worker %s takes no messages from: %s", self._worker.name, lost)
        return bool(before - consumption.lost)

    def _beat(self) -> None:
        """One that finds its row locked by somebody is repeated with the next poll, which it must not keep
        from its other questions."""
        try:
            worker_row.beat(self._worker)
        except DatabaseError as error:
            if not sql.is_busy(error):
                raise
            logger.warning("worker %s: no heartbeat, %s", self._worker.name, sql.trouble(error))
        else:
            self._next_heartbeat = time.monotonic() + queue_settings().worker_heartbeat_seconds

    def _poll_cancellations(self) -> None:
        running = {step.grant.lease_id: step for step in self._steps.all()}
        if running:
            cancelled = Lease.objects.filter(pk__in=running).exclude(cancel_requested_by="")
            for lease_id in cancelled.values_list("pk", flat=True):
                self._steps.abort(running[lease_id], CANCELLED)

    def _poll_drain_request(self) -> None:
        draining_at = drain_orders.follow(self._worker)
        if draining_at is None:
            return
        self._worker.draining.set()
        grace = timedelta(seconds=queue_settings().shutdown_grace)
        if database_now() >= draining_at + grace:
            self._steps.abort_all(SHUTDOWN)


def stand_in_for_beat() -> None:
    """Start the thread that looks for expired leases, and when no beat does runs the tick and asks for the
    other periodic jobs."""
    background_thread.repeat("sluice-tick", _StandIn().look_and_tick)


class _StandIn:
    """What the thread does again and again."""

    def __init__(self) -> None:
        self._next_look_for_late_jobs = 0.0

    def look_and_tick(self) -> float:
        try:
            housekeeping.expire_if_due()
        finally:  # the tick waits for nothing that keeps one from looking
            housekeeping.tick_if_overdue()
        if time.monotonic() >= self._next_look_for_late_jobs:
            self._next_look_for_late_jobs = time.monotonic() + periodic_jobs.ROLL_UP_SECONDS
            housekeeping.ask_for_late_jobs(current_app.amqp.queues.consume_from)
        return expiry.seconds_between_looks(queue_settings())
