"""Opening a file of this machine: a regular one, and no link to another, whoever may write to its folder.

What is checked is what is opened: every folder on the way below `within` is opened by itself, without
following links, and the file relative to it. So nobody can put a link in the place of what was checked.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from queuemgr import StepFailed

KINDS = (
    (stat.S_ISLNK, "a link: name the file it leads to"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FoundFile(NamedTuple):
    """A file in a folder; `refusal`: why it may not be read, empty if it may. `modified`: seconds."""

    path: Path
    modified: float
    refusal: str = ""


def open_file(path: Path, within: Path | None = None) -> BinaryIO:
    """The file, for reading. `within`: the folder that it must really lie in, and into which others may
    write; without one, the file is one that a person named.

    Raises StepFailed("refused_file"), and OSError.
    """
    folder = within or path.parent
    *folders, name = path.relative_to(folder).parts
    at = os.open(folder, _FOLDER)
    try:
        owner = os.fstat(at).st_uid if within else None
        for each in folders:
            at = _entered(at, each, path)
        handle = _open_regular(name, at, owner, path)
    finally:
        os.close(at)
    return os.fdopen(handle, "rb")


def _entered(at: int, name: str, path: Path) -> int:
    """The folder of this name in the open one, which is closed."""
    try:
        inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _refused(path, f"below a link ({name})") from error
        raise
    os.close(at)
    return inner


def _open_regular(name: str, at: int, owner: int | None, path: Path) -> int:
    # Asked first: opening a device may already have an effect.
    if refusal := refusal_of(os.stat(name, dir_fd=at, follow_symlinks=False), owner):
        raise _refused(path, refusal)
    try:
        handle = os.open(name, _FILE, dir_fd=at)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _refused(path, "a link or a pipe by now") from error
        raise
    if refusal := refusal_of(os.fstat(handle), owner):
        os.close(handle)
        raise _refused(path, refusal)
    return handle


def refusal_of(status: os.stat_result, owner: int | None) -> str:
    """Why this is no file to be read, empty if it is one. `owner`: that of the folder it was put into; None:
    it may have any."""
    kind = next((words for is_kind, words in KINDS if is_kind(status.st_mode)), "")
    if not kind and not stat.S_ISREG(status.st_mode):
        kind = "no regular file"
    if not kind and owner is not None and status.st_nlink > 1 and status.st_uid != owner:
        kind = "another name of a file of another owner"
    return kind


def _refused(path: Path, refusal: str) -> StepFailed:
    return StepFailed("refused_file", f"{path} is {refusal}")


MOST_LEVELS = 20
"""Of folders in folders: each that is being read keeps a descriptor open, and a process has a thousand."""

TOO_DEEP = f"a folder in a folder, {MOST_LEVELS} levels down: what is in it is not read"
UNREADABLE = "a folder that this process may not read"


MOST_LEVELS = 20
"""Of folders in folders: each that is being read keeps a descriptor open, and a process has a thousand."""

TOO_DEEP = f"a folder {MOST_LEVELS} levels down: what is in it is not read"
UNREADABLE = "a folder that this process may not read"


def files_in(folder: Path, *, below: bool = True) -> list[FoundFile]:
    """Everything in a folder and (`below`) in those below it, links not followed, in the order of names; and
    the folders that are not read."""
    handle = os.open(folder, _FOLDER)
    try:
        return sorted(_files_in(handle, folder, os.fstat(handle).st_uid, MOST_LEVELS if below else None))
    finally:
        os.close(handle)


def _files_in(handle: int, folder: Path, owner: int, levels: int | None) -> Iterator[FoundFile]:
    for name in os.listdir(handle):
        path = folder / name
        try:
            status = os.stat(name, dir_fd=handle, follow_symlinks=False)
        except FileNotFoundError:  # gone since
            continue
        except PermissionError:  # the folder may be listed, and no more
            yield FoundFile(folder, 0.0, UNREADABLE)
            return
        if not stat.S_ISDIR(status.st_mode):
            yield FoundFile(path, status.st_mtime, refusal_of(status, owner))
        elif levels == 0:
            yield FoundFile(path, 0.0, TOO_DEEP)
        elif levels is not None:
            yield from _below(handle, path, owner, levels - 1)


def _below(at: int, folder: Path, owner: int, levels: int) -> Iterator[FoundFile]:
    """What is in this folder of the open one. A pipe that took its place is not waited for."""
    try:
        inner = os.open(folder.name, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
    except PermissionError:
        yield FoundFile(folder, 0.0, UNREADABLE)
        return
    except OSError:  # gone since, or something else by now: the next look finds it
        return
    try:
        yield from _files_in(inner, folder, owner, levels)
    except PermissionError:
        yield FoundFile(folder, 0.0, UNREADABLE)
    finally:
        os.close(inner)
