"""Files that only their owner may read: new ones by the umask, older ones when a process starts; and secrets
kept in such files."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from pydantic import SecretStr

from queuemgr.base.credentials import register_secret_text

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


def read_secret(file: Path) -> SecretStr:
    """The secret in a file, masked from now on. Raises `OSError`."""
    secret = file.read_text().strip()
    register_secret_text(secret)
    return SecretStr(secret)


def write_secret(file: Path, secret: str) -> SecretStr:
    """Store a secret in a file for its owner only, as a whole or not at all. Raises `OSError`."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}")
    temporary.touch(mode=0o600)
    temporary.write_text(secret)
    temporary.rename(file)
    return read_secret(file)


def secret_in(file: Path, make: Callable[[], str]) -> SecretStr:
    """The secret in a file, made if there is none yet. Raises `OSError`."""
    return read_secret(file) if file.exists() else write_secret(file, make())
