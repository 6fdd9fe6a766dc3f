"""File storage that is away while a switch is on, with an error of its own as object stores have."""

from __future__ import annotations

from typing import Any, cast

from django.core.files.storage import FileSystemStorage

from proof.application import switches


class EndpointConnectionError(Exception):
    """What the client of an object store raises; no OSError."""


class FailingStorage(FileSystemStorage):
    """Files in a directory, unless the store is away."""

    def _open(self, name: str, mode: str = "rb") -> Any:
        _raise_if_away()
        return super()._open(name, mode)  # type: ignore[misc]  # not in the stubs

    def _save(self, name: str, content: Any) -> str:
        _raise_if_away()
        return cast(str, super()._save(name, content))  # type: ignore[misc]  # not in the stubs

    def exists(self, name: str) -> bool:
        _raise_if_away()
        return super().exists(name)

    def delete(self, name: str) -> None:
        _raise_if_away()
        super().delete(name)


def _raise_if_away() -> None:
    if switches.is_on(switches.STORAGE_AWAY):
        raise EndpointConnectionError('Could not connect to the endpoint URL: "http://store.example:9000/"')
