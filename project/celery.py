"""The Celery application: Celery's settings and the tasks of the apps. The queue hooks itself into it."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")  # Django's checks import every page

app = Celery("sluicegate")
app.config_from_object("project.celery_settings:celery_settings")
app.autodiscover_tasks()
