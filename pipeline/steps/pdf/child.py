"""The sandbox's inner side: take the limits, read the order, run one script, write JSON lines.

Run as `python -I child.py SCRIPT`, never imported by the worker. SCRIPT defines
`lines(order)`, a generator of dictionaries; each becomes one line on standard output. Standard
library only: what is imported here is paid for on every document.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import Any, BinaryIO

OPEN_FILES = 64
"""Descriptors the child may hold: the document, its libraries, nothing a bomb could multiply."""


def main(script: str) -> None:
    """Obey one request from standard input; the last line written is `end` or `died`."""
    request = json.loads(sys.stdin.readline())
    out = private_output()
    take_limits(**request["limits"])
    threading.Thread(target=die_with_parent, daemon=True).start()
    try:
        for line in runpy.run_path(script)["lines"](request["order"]):
            tell(out, line)
    except MemoryError:
        tell(out, {"died": "memory"})
    except Exception as error:
        tell(out, {"died": "crashed", "detail": where(error)})
    else:
        tell(out, {"end": True})


def private_output() -> BinaryIO:
    """Keep the pipe to ourselves: a library that prints must not be able to forge a line."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return pipe


def take_limits(memory_bytes: int, cpu_seconds: int) -> None:
    """Limit this process itself: the parent may be fat, so nothing is set between fork and exec."""
    lower(resource.RLIMIT_AS, memory_bytes)
    lower(resource.RLIMIT_CPU, cpu_seconds)
    lower(resource.RLIMIT_NOFILE, OPEN_FILES)
    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_FSIZE, 0)  # it reads a document; it has no file to write


def lower(what: int, wanted: int) -> None:
    """Set soft and hard limit, never above the hard limit this process was born with.

    macOS knows no limit on address space and refuses to set one; there time alone protects.
    """
    hard = resource.getrlimit(what)[1]
    value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(what, (value, value))
    except (ValueError, OSError):
        if sys.platform != "darwin":
            raise


def die_with_parent() -> None:
    """Standard input ends when the worker does, however it ends: then so does this group."""
    while os.read(0, 1024):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def tell(out: BinaryIO, line: Mapping[str, Any]) -> None:
    """Write one line; lone surrogates travel as they are, the parent cleans the text."""
    text = json.dumps(line, ensure_ascii=False)
    out.write(text.encode("utf-8", "surrogatepass") + b"\n")
    out.flush()


def where(error: Exception) -> str:
    """Type and place, never the message: that may quote the document."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return type(error).__name__ + place


if __name__ == "__main__":
    main(sys.argv[1])
