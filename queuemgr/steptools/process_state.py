"""`register(reset)`: have what a step's module remembers forgotten with all else a process remembers."""

from queuemgr.base.process_state import register

__all__ = ["register"]
