"""Files that only their owner may read: new ones by the umask, older ones when a process starts."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_new_files_private() -> None:
    """Whatever this process and those it starts create is for its owner only."""
    os.umask(os.umask(OTHERS) | OTHERS)


def tighten(paths: Iterable[Path]) -> None:
    """Take from others their permissions for these files and directories, where they are our own."""
    for path in paths:
        with suppress(OSError):
            found = path.lstat()
            if found.st_uid == os.geteuid() and found.st_mode & OTHERS and not stat.S_ISLNK(found.st_mode):
                path.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)
