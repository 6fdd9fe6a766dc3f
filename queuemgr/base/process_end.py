"""The end of a program that has done its work, without freeing what the system takes back anyway."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import NoReturn

OUR_COMMANDS = frozenset(
    (
        "changepassword", "check", "createsuperuser", "doctor", "index", "makemigrations", "migrate", "ocr",
        "papers", "queue", "serve", "up", "worker",
    )
)  # fmt: skip
"""The commands of `manage.py` that end so. One of an application's own may have left a file unclosed, whose
buffer is written only as it is freed."""

LOST_OUTPUT = 120
"""Python's own exit code where what was printed last could not be written."""


def end_process(code: object) -> NoReturn:
    """End as Python does after `sys.exit(code)` (threads, exit handlers, buffers), but for the last
    thing: to free every module and object took a tenth of the processor time of a command, and four
    fifths of one that was forked from a process with warm imports, whose pages it copies by that."""
    if code is not None and not isinstance(code, int):
        if (errors := sys.stderr or sys.__stderr__) is not None:
            with suppress(OSError, ValueError):
                print(code, file=errors)
        code = 1
    with suppress(KeyboardInterrupt):  # pressed again while threads end
        threading._shutdown()  # type: ignore[attr-defined]  # what Python calls at its end; not in the stubs
    with suppress(KeyboardInterrupt):
        atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except (OSError, ValueError):
        code = LOST_OUTPUT
    os._exit(int(code or 0) & 0xFF)
