"""The Celery application: Django's settings, the apps' tasks, and every worker's presence."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("sluicegate")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@app.on_after_finalize.connect
def _wire(sender: Celery, **kwargs: Any) -> None:
    """Needs models, hence Django's app registry, hence not at import."""
    from queuemgr.worker.beat import beat_schedule
    from queuemgr.worker.registration import WorkerRegistration

    sender.steps["worker"].add(WorkerRegistration)
    sender.conf.beat_schedule = beat_schedule()
