"""`manage.py doctor`: problems of this installation, with remedies."""

from queuemgr.cli.doctor import Command

__all__ = ("Command",)
