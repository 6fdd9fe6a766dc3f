"""Secrets in the environment of a process, taken out of it once they are read.

Children inherit an environment, an exception may quote it, and the system shows the one a process was started
with. So a program that runs code of an application keeps the secrets it needs in its memory only, and drops
the others.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress

from queuemgr.base import process_state

_kept: dict[str, str] = {}
process_state.register(_kept.clear)


def keep_in_memory(variables: Iterable[str]) -> None:
    """Take these variables out of the environment; `kept` still gives their values."""
    for name in variables:
        if value := os.environ.get(name):
            _kept[name] = value
            drop([name])


def drop(variables: Iterable[str]) -> None:
    """Take these variables out of the environment, and out of the copy that the system shows of it."""
    for name in variables:
        if name in os.environ:
            _overwrite(name)
            del os.environ[name]


def hide(variables: Iterable[str]) -> None:
    """Leave these variables in the environment, for programs started from here, and take them out of the copy
    that the system shows of it."""
    for name in variables:
        if value := os.environ.get(name):
            _overwrite(name)
            os.environ[name] = value


def kept(variable: str) -> str | None:
    """The value of a variable that was taken out of the environment."""
    return _kept.get(variable)


def for_same_program() -> dict[str, str]:
    """The environment this process was started with, to start the same program once more."""
    return {**os.environ, **_kept}


def _overwrite(variable: str) -> None:
    """`/proc/PID/environ` shows the memory a process was started with, and removing a variable leaves that as
    it is."""
    with suppress(OSError, AttributeError):  # no C library that can be loaded like this
        library = ctypes.CDLL(None)
        library.getenv.restype = ctypes.c_void_p
        library.getenv.argtypes = [ctypes.c_char_p]
        if address := library.getenv(os.fsencode(variable)):
            ctypes.memset(address, 0, len(ctypes.string_at(address)))
