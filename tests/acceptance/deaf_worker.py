"""The application, whose workers stop consuming a queue when a file in the data directory names it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery import bootsteps

from project.celery import app

ORDERS = Path(os.environ["SLUICE_DATA_DIR"]) / "cancel"


class Cancelled(bootsteps.StartStopStep):
    """As remote control did it, from the main loop."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        consumer.timer.call_repeatedly(0.2, self._look, (consumer,))

    def _look(self, consumer: Any) -> None:
        if ORDERS.exists():
            name = ORDERS.read_text()
            ORDERS.unlink()
            if name == "all":
                consumer.task_consumer.channel._active_queues.clear()
            else:
                consumer.cancel_task_queue(name)


app.steps["consumer"].add(Cancelled)
