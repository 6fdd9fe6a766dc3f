"""The child process of the sandbox: read the job, confine itself, run one script, write JSON lines.

Run as `python -I child.py SCRIPT`, or in a fork of `template.py`, never in the worker. SCRIPT defines
`lines(job)`, a generator of dictionaries; each becomes one line on standard output.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
"""Where the scripts import modules of this package from; `-I` leaves it out of `sys.path`."""

OPEN_FILES = 64
"""File descriptors of the child: enough for the document and its libraries, not for an attack."""


Lines = Callable[[Mapping[str, Any]], Iterator[dict[str, Any]]]


def main(script: str, imported: Lines | None = None) -> None:
    """Run one job from standard input; the last line written is `end` or `died`. `imported`: the script's
    `lines`, if it has been imported already."""
    request = json.loads(sys.stdin.readline())
    out = private_output()
    set_limits(**request["limits"])
    sys.path.insert(0, ROOT)  # this checkout, whichever is installed
    confine([script, *request["files"]], threads=request["threads"])
    try:
        read = imported or runpy.run_path(script)["lines"]
        for line in read(request["job"]):
            write_line(out, line)
    except MemoryError:
        write_line(out, {"died": "memory"})
    except Exception as error:  # what libraries raise over a damaged document has no common base
        write_line(out, {"died": "crashed", "detail": location(error)})
    else:
        write_line(out, {"end": True})


def private_output() -> BinaryIO:
    """Make the pipe private, so that a library that prints cannot forge a line."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return pipe


def confine(files: Sequence[str], *, threads: bool) -> None:
    """Give up all but reading `files` and libraries, as far as the kernel can, and start our own thread in
    between: each thread is confined to files when it starts, to calls all are at once."""
    from pipeline.steps.confinement.confine import confine_to_calls, confine_to_files

    confine_to_files(files)
    threading.Thread(target=die_with_parent, daemon=True).start()
    confine_to_calls(threads=threads)


def set_limits(memory_bytes: int, cpu_seconds: int) -> None:
    """Limit this process from inside: between fork and exec the parent's own size would count."""
    lower(resource.RLIMIT_AS, memory_bytes)
    lower(resource.RLIMIT_CPU, cpu_seconds)
    lower(resource.RLIMIT_NOFILE, OPEN_FILES)
    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_FSIZE, 0)  # it has no file to write


def lower(what: int, wanted: int) -> None:
    """Set soft and hard limit, never above the inherited hard limit.

    macOS has no limit on address space and refuses to set one; there only the time limit protects.
    """
    hard = resource.getrlimit(what)[1]
    value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(what, (value, value))
    except (ValueError, OSError):
        if sys.platform != "darwin":
            raise


def die_with_parent() -> None:
    """Kill this process group when standard input is closed, which happens when the worker dies."""
    while os.read(0, 1024):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def write_line(out: BinaryIO, line: Mapping[str, Any]) -> None:
    """Write one line, including lone surrogates: the parent cleans the text."""
    text = json.dumps(line, ensure_ascii=False)
    out.write(text.encode("utf-8", "surrogatepass") + b"\n")
    out.flush()


def location(error: Exception) -> str:
    """Type and source line, never the message, which may quote the document."""
    frames = traceback.extract_tb(error.__traceback__)
    line = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return type(error).__name__ + line


if __name__ == "__main__":
    main(sys.argv[1])
