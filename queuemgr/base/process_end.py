"""The end of a program that has done its work, without freeing what the system takes back anyway."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import NoReturn

LOST_OUTPUT = 120
"""Python's own exit code where what was printed last could not be written."""


def end_process(code: object) -> NoReturn:
    """End as Python does after `sys.exit(code)` (threads, exit handlers, buffers), but for the last
    thing: to free every module and object took a tenth of the processor time of a command, and four
    fifths of one that was forked from a process with warm imports, whose pages it copies by that."""
    threading._shutdown()  # type: ignore[attr-defined]  # what Python calls first at its end; not in the stubs
    atexit._run_exitfuncs()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except (OSError, ValueError):
        code = LOST_OUTPUT
    os._exit(int(code or 0) & 0xFF)
