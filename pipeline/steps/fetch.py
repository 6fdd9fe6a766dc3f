"""Bring a PDF here: from a URL or from the user's disk, into a temporary file that was checked.

The caller promotes the file, by renaming it, or removes it.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from pipeline.steps.addresses import Reach, shown
from pipeline.steps.http import HttpClient
from pipeline.steps.http_failure import named_failures
from pipeline.steps.inflate import Unpacker
from pipeline.steps.part_file import PartFile, part_file
from queuemgr.abort import NEVER, AbortSignal
from queuemgr.errors import StepFailed

# Packing a PDF gains nothing, and unpacked transfer lets the declared length be checked.
_HEADERS = {"Accept": "application/pdf, */*;q=0.5", "Accept-Encoding": "identity"}


@dataclass(frozen=True)
class FetchOptions:
    """Limits of one download: bytes after unpacking, seconds in all, and how far it may reach.

    `trusted_hosts` (each `name:port`) may be private although `allow_private` is off.
    """

    max_bytes: int = 200 * 1024 * 1024
    deadline: float = 300.0
    allow_private: bool = False
    trusted_hosts: frozenset[str] = frozenset()

    @property
    def reach(self) -> Reach:
        return Reach(self.allow_private, self.trusted_hosts)


@dataclass(frozen=True)
class Fetched:
    """A PDF in a temporary file, on disk to the last byte; `size` in bytes."""

    path: Path
    sha256: str
    size: int
    final_url: str
    content_type: str


def fetch(
    url: str, into: Path, options: FetchOptions, http: HttpClient, signal: AbortSignal
) -> Fetched:
    """Download a PDF to a temporary file in the directory `into`; on any failure none is left.

    Raises Aborted, and StepFailed: "not_pdf", "too_large", "timeout", "network", "refused_address",
    "storage", and those of the statuses (see `http_failure`).
    """
    with part_file(into, options.max_bytes) as part:
        final_url, content_type = http.run(_download(url, part, options, http), signal)
        part.finish()
        signal.raise_if_aborted()
        return Fetched(part.path, part.sha256, part.size, final_url, content_type)


def adopt(path: Path, into: Path, options: FetchOptions, signal: AbortSignal = NEVER) -> Fetched:
    """Copy the user's own file to a temporary file in `into`, under the checks of a download.

    Raises Aborted, and StepFailed: "not_found", "not_pdf", "too_large", "storage".
    """
    with part_file(into, options.max_bytes) as part, _readable(path):
        _refuse_irregular(path)
        part.source = str(path)
        with path.open("rb") as original:
            while piece := original.read(1024 * 1024):
                signal.raise_if_aborted()
                part.write(piece)
        part.finish()
        signal.raise_if_aborted()
        return Fetched(
            part.path, part.sha256, part.size, path.absolute().as_uri(), "application/pdf"
        )


async def _download(
    url: str, part: PartFile, options: FetchOptions, http: HttpClient
) -> tuple[str, str]:
    """Fill the part file; gives the final URL and the content type as the server states it."""
    with named_failures(url):
        async with (
            asyncio.timeout(options.deadline),
            http.opened(url, options.reach, _HEADERS) as response,
        ):
            part.source = shown(response.url)
            _refuse_declared(response, options.max_bytes)
            await _pour(response, part)
            return str(response.url), response.headers.get("content-type", "")


async def _pour(response: httpx.Response, part: PartFile) -> None:
    unpacker = Unpacker(response.headers.get("content-encoding", ""))
    async for raw in response.aiter_raw():
        for piece in unpacker.feed(raw):
            await asyncio.to_thread(part.write, piece)
    unpacker.finish()


def _refuse_declared(response: httpx.Response, max_bytes: int) -> None:
    """Stop before the first byte when the server itself says it is too much."""
    declared = response.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise StepFailed(
            "too_large", f"{shown(response.url)} is {declared} bytes; the limit is {max_bytes}"
        )


def _refuse_irregular(path: Path) -> None:
    # Opening a named pipe would wait for its writer for ever.
    if not stat.S_ISREG(path.stat().st_mode):
        raise StepFailed("not_found", f"{path} is not a file")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise StepFailed("not_found", f"there is no file {path}") from error
    except PermissionError as error:
        raise StepFailed("not_found", f"the file {path} may not be read by this process") from error
    except OSError as error:
        raise StepFailed("storage", f"{path} could not be read: {error}") from error
