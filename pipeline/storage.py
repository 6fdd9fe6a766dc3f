"""Every use of the file storage: whatever its backend raises becomes `StorageFailed`.

Backends raise exceptions of their own (botocore's, urllib3's, a database's) besides `OSError`. A step that
meets one fails with the kind `storage` and is retried by its policy; a page answers 503.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any, TypeVar

from billiard.exceptions import SoftTimeLimitExceeded
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.utils import timezone

from queuemgr import SluiceError, StepFailed

Value = TypeVar("Value")

CHUNK = 1 << 16


class StorageFailed(StepFailed):
    """The storage did not do what was asked of it; the message says what, and in the backend's words why."""


class FileMissing(StorageFailed):
    """The storage answers that it has no file of this name."""


def save(name: str, content: Any) -> str:
    """Store a file; returns its name there."""
    return str(_guarded("stored", name, lambda: default_storage.save(name, content)))


def exists(name: str) -> bool:
    return bool(_guarded("looked up", name, lambda: default_storage.exists(name)))


def size(name: str) -> int:
    return int(_guarded("looked up", name, lambda: default_storage.size(name)))


def delete(name: str) -> None:
    _guarded("removed", name, lambda: default_storage.delete(name))


def local_path(name: str) -> Path | None:
    """The path of a stored file; None if the storage is not on a local disk."""
    try:
        return Path(_guarded("located", name, lambda: default_storage.path(name)))
    except NotImplementedError:  # raised by storages without local paths
        return None


def names_in(folder: str) -> list[str]:
    """The files in a folder; none if the storage cannot list them."""
    try:
        files = _guarded("listed", folder, lambda: default_storage.listdir(folder)[1])
    except (NotImplementedError, FileMissing):
        return []
    return [f"{folder}/{name}" for name in files]


def modified_at(name: str) -> datetime:
    """When a file was last written; now for one that has been removed meanwhile."""
    try:
        found: datetime = _guarded("looked up", name, lambda: default_storage.get_modified_time(name))
    except FileMissing:
        return timezone.now()
    return found if timezone.is_aware(found) else timezone.make_aware(found)


class StoredFile:
    """A file open for reading, whose backend may still fail at every read."""

    def __init__(self, name: str, file: Any) -> None:
        self.name, self._file, self._ahead = name, file, b""

    def read_ahead(self) -> None:
        """Read the first part, which the next `read` returns: so the backend fails now or later, not then."""
        self._ahead = self.read(CHUNK)

    def read(self, size: int = -1) -> bytes:
        ahead, self._ahead = self._ahead, b""
        return ahead or bytes(_guarded("read", self.name, lambda: self._file.read(size)))

    def __iter__(self) -> Iterator[bytes]:
        """Its lines."""
        lines = iter(self._file)
        while (line := _guarded("read", self.name, lambda: next(lines, None))) is not None:
            yield line

    def chunks(self) -> Iterator[bytes]:
        while chunk := self.read(CHUNK):
            yield chunk

    def close(self) -> None:
        _guarded("closed", self.name, self._file.close)


def open_file(name: str | None) -> StoredFile:
    """Open a file for reading; raises `FileMissing` for one that is not there."""
    if not name:
        raise FileMissing("storage", "the file could not be read: none was stored")
    return StoredFile(name, _guarded("read", name, lambda: default_storage.open(name, "rb")))


def open_started(name: str) -> StoredFile:
    """Open a file and read its first part, so that a storage that does not answer is met now."""
    file = open_file(name)
    try:
        file.read_ahead()
    except StorageFailed:
        file.close()
        raise
    return file


@contextmanager
def opened(name: str | None) -> Iterator[StoredFile]:
    file = open_file(name)
    try:
        yield file
    finally:
        file.close()


def copy(name: str, to: IO[bytes]) -> None:
    """Write a stored file into another; what that raises is not the storage's."""
    with opened(name) as stored:
        to.writelines(stored.chunks())


def check() -> None:
    """Write, read and delete a small file; raises `StorageFailed`."""
    content = secrets.token_bytes(32)
    name = save(f"doctor/{secrets.token_hex(8)}", ContentFile(content))
    try:
        with opened(name) as file:
            if file.read() != content:
                raise StorageFailed("storage", f"{name} could not be read: it holds other bytes than stored")
    finally:
        delete(name)


def _guarded(done: str, name: str, call: Callable[[], Value]) -> Value:
    """Call the backend. Errors of ours and a step's time limit pass, and what says that the backend has
    no such function."""
    try:
        return call()
    except (SluiceError, SoftTimeLimitExceeded, NotImplementedError):
        raise
    except FileNotFoundError as error:
        raise FileMissing("storage", f"{name} could not be {done}: there is no such file") from error
    except Exception as error:
        raise StorageFailed("storage", f"{name} could not be {done}: {_in_words(error)}") from error


def _in_words(error: Exception) -> str:
    try:
        said = getattr(error, "strerror", None) or str(error)
    except Exception:
        said = ""
    return said if isinstance(error, OSError) and said else f"{type(error).__name__}: {said}"
