"""Beat's scheduler, which survives an outage of the broker."""

from __future__ import annotations

import logging
from typing import Any

from celery.beat import PersistentScheduler, ScheduleEntry, SchedulingError

from queuemgr.base.private_memory import keep_private
from queuemgr.lifecycle.publish import broker_errors

logger = logging.getLogger(__name__)


class ReconnectingScheduler(PersistentScheduler):
    """Sends each job over a connection of the pool, which opens a new one after an outage.

    Celery's own holds one connection: when RabbitMQ restarts, it sends nothing more until beat is restarted,
    and logs two tracebacks for each job.
    """

    producer = None  # type: ignore[assignment]  # each job takes one of the pool

    def setup_schedule(self) -> None:
        keep_private()
        super().setup_schedule()

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        try:
            self.apply_async(entry, advance=False)
        except SchedulingError as error:
            if isinstance(error.__context__, broker_errors()):
                logger.warning("the broker does not answer (%s); sent again when due", error)
            else:
                logger.exception("a periodic job could not be sent")
