"""`celery -A queuemgr worker`: the project's Celery application, or our own for a project without one."""

from __future__ import annotations

from typing import Any

import django
from django.apps import apps


def __getattr__(name: str) -> Any:
    """The application, found when it is asked for: it needs Django's settings."""
    if name not in ("app", "celery"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not apps.ready:
        django.setup()
    from queuemgr.worker.celery_app import celery_app

    return celery_app()
