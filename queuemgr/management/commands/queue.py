"""`manage.py queue …`: enqueue, run, watch, explain, pause, retry."""

from queuemgr.cli.queue_command import Command

__all__ = ("Command",)
