"""A storage that works, but for the methods a test names: those raise what the test gives."""

from __future__ import annotations

from typing import Any

from django.core.files.storage import FileSystemStorage

raises: dict[str, BaseException] = {}
"""What each method raises, by its name; `read` is that of an open file."""


class _File:
    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, *given: Any) -> Any:
        _maybe_raise("read")
        return self._file.read(*given)

    def __iter__(self) -> Any:
        while line := (_maybe_raise("read") or self._file.readline()):
            yield line


class FailingStorage(FileSystemStorage):
    """Not on a local disk, as far as its users know."""

    def __init__(self) -> None:
        super().__init__(allow_overwrite=True)

    def path(self, name: str) -> str:
        raise NotImplementedError("This backend doesn't support absolute paths.")

    def save(self, name: Any, content: Any, max_length: Any = None) -> str:
        _maybe_raise("save")
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(content.chunks()))
        return str(name)

    def open(self, name: Any, mode: str = "rb") -> Any:
        _maybe_raise("open")
        return _File(self._path(name).open("rb"))

    def exists(self, name: str) -> bool:
        _maybe_raise("exists")
        return self._path(name).exists()

    def size(self, name: str) -> int:
        _maybe_raise("size")
        return self._path(name).stat().st_size

    def delete(self, name: str) -> None:
        _maybe_raise("delete")
        self._path(name).unlink(missing_ok=True)

    def listdir(self, path: str) -> Any:
        _maybe_raise("listdir")
        folder = self._path(path)
        return [], [each.name for each in folder.iterdir()] if folder.exists() else []

    def get_modified_time(self, name: str) -> Any:
        _maybe_raise("get_modified_time")
        return super().get_modified_time(name)

    def _path(self, name: str) -> Any:
        from pathlib import Path

        return Path(self.location) / name


def _maybe_raise(method: str) -> None:
    if method in raises:
        raise raises[method]
