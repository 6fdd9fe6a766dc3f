"""For Django's Tasks framework: `TASKS = {"default": {"BACKEND": "queuemgr.django_tasks.Backend"}}`."""

from queuemgr.tasks.django_backend import Backend

__all__ = ["Backend"]
