"""`manage.py worker`: a Celery worker for some phases."""

from queuemgr.cli.worker import Command

__all__ = ("Command",)
