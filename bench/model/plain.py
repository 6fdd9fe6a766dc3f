"""The same with plain Celery: a rate limit in each worker, and a client that sleeps and tries again."""

from __future__ import annotations

import os
import time

from celery import Celery

from bench.model import endpoint

app = Celery("plain", broker=os.environ["BROKER_URL"])
app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False)

PER_WORKER = os.environ.get("MODEL_RATE", "30/m")
"""Celery counts in each worker by itself: 60 a minute for two workers are 30 each."""


@app.task(name="plain.ask", queue="plain", rate_limit=PER_WORKER)
def ask(words: int) -> None:
    while (wait := endpoint.ask(words)) is not None:
        time.sleep(wait)
