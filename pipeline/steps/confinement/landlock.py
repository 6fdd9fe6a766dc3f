"""Landlock (Linux 5.13): this process opens no files but those it names, and these only to read."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from contextlib import suppress

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_VERSION, PATH_BENEATH = 1, 1

EXECUTE, READ_FILE, READ_DIRECTORY = 1 << 0, 1 << 2, 1 << 3

HANDLED = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Everything that can be done to files, from this version of Landlock on: what is handled is refused unless a
rule allows it."""

CONNECT_AND_BIND = 3
"""TCP, from version 4 on."""

SOCKETS_AND_SIGNALS = 3
"""Abstract sockets of, and signals to, processes outside; from version 6 on."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # which Python 3.14 wants named beside `_pack_`
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def restrict(libc: ctypes.CDLL, readable: Iterable[str], executable: Iterable[str] = ()) -> str:
    """Let this process, for good, open only what is at or below these paths, to read, and execute only these
    files; returns why not, or "". Only the thread that calls is restricted, and those it starts. Needs
    `no_new_privs`."""
    version = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_VERSION)
    if version < 1:
        return os.strerror(ctypes.get_errno())
    handled = _Ruleset(
        HANDLED[max(known for known in HANDLED if known <= version)],
        CONNECT_AND_BIND if version >= 4 else 0,
        SOCKETS_AND_SIGNALS if version >= 6 else 0,
    )
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = libc.syscall(CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return os.strerror(ctypes.get_errno())
    try:
        for path in readable:
            with suppress(OSError):  # not on this system
                _allow(libc, ruleset, path)
        for path in executable:
            _allow(libc, ruleset, path, EXECUTE)
        refused = libc.syscall(RESTRICT_SELF, ruleset, 0)
        return os.strerror(ctypes.get_errno()) if refused else ""
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, more: int = 0) -> None:
    """Allow to read a file, or everything below a directory, and to do `more` with it. Raises `OSError`."""
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        is_directory = stat.S_ISDIR(os.fstat(opened).st_mode)
        rights = READ_FILE | READ_DIRECTORY if is_directory else READ_FILE
        rule = _Beneath(rights | more, opened)
        if libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0):
            raise OSError(ctypes.get_errno(), "landlock_add_rule")
    finally:
        os.close(opened)
