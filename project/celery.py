"""The Celery application: Django's settings, the tasks of the apps, worker registration, beat schedule."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")  # Django's checks import every page

app = Celery("sluicegate")
app.config_from_object("project.celery_settings:celery_settings")
app.autodiscover_tasks()


@app.on_after_finalize.connect
def _configure(sender: Celery, **kwargs: Any) -> None:
    """Not at import: it needs Django's models."""
    from queuemgr.worker.beat import beat_schedule
    from queuemgr.worker.registration import WorkerRegistration

    sender.steps["worker"].add(WorkerRegistration)
    sender.conf.beat_schedule = beat_schedule()
