"""The sandboxed children of a process, to see that none is left."""

from __future__ import annotations

from contextlib import suppress

import psutil


def family(of: int | None = None) -> list[psutil.Process]:
    """The sandboxed children of a process (ours by default), and their own children."""
    found: list[psutil.Process] = []
    for child in psutil.Process(of).children():
        with suppress(psutil.NoSuchProcess):
            command = child.cmdline()
            if any("child.py" in word for word in command):
                found += [child, *child.children(recursive=True)]
            elif any("pdf/template.py" in word for word in command):
                found += child.children(recursive=True)
    return found
