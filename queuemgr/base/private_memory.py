"""Keeps this process's memory and environment, which hold keys, from the programs that its steps start."""

from __future__ import annotations

import ctypes
import sys

PR_SET_DUMPABLE = 4


def keep_private() -> None:
    """Close `/proc/PID/environ` and `/proc/PID/mem` of this process and its forked children to others of the
    same user, and to debuggers but root's; they leave no core dump. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
