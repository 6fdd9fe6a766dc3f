"""Bring a PDF here: from a URL or from the user's disk, into a temporary file that was checked.

The caller promotes the file, by renaming it, or removes it.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.steps.fetch.download import Answered, Asked, Download, FetchOptions
from pipeline.steps.fetch.partial_file import PartFile, part_file
from pipeline.steps.http.client import HttpClient
from pipeline.steps.http.redirects import LeadsElsewhere, Trip
from queuemgr import NEVER, AbortSignal, StepFailed

NO_END = "no %%EOF in its last 2 KB: it may be cut off"


@dataclass(frozen=True)
class Fetched:
    """A PDF in a temporary file, on disk to the last byte; `size` in bytes.

    `etag` and `last_modified` are the server's, as it sent them; `note` says what seems odd.
    """

    path: Path
    sha256: str
    size: int
    final_url: str
    content_type: str
    etag: str = ""
    last_modified: str = ""
    note: str = ""


@dataclass(frozen=True)
class Unchanged:
    """The copy we have is still the one the server would send."""


@dataclass(frozen=True)
class Elsewhere:
    """The chain goes on at `url`, on another host; `trip` is what to take along."""

    url: str
    trip: Trip


def fetch(
    asked: Asked | str,
    into: Path,
    options: FetchOptions,
    http: HttpClient,
    signal: AbortSignal,
    trip: Trip | None = None,
) -> Fetched | Unchanged | Elsewhere:
    """Download a PDF to a temporary file in the directory `into`.

    On failure nothing is left there but what a later call may go on with (see `resume`). Elsewhere
    comes only of a trip that must stay with one host, Unchanged only where an earlier copy was named.
    Raises Aborted, and StepFailed: "not_pdf", "too_large", "timeout", "network", "refused_address",
    "bad_answer", "storage", and those of the statuses (see `http_failure`).
    """
    asked = Asked(asked) if isinstance(asked, str) else asked
    with part_file(into, options.max_bytes) as part:
        download = Download(asked, part, options, http, trip or Trip())
        try:
            answered = http.run(download.run(), signal)
        except LeadsElsewhere as away:
            part.discard()
            return Elsewhere(away.url, download.trip)
        except StepFailed as failure:
            download.keep(failure)
            raise
        if not answered.changed:
            part.discard()
            return Unchanged()
        return _checked(part, answered, signal)


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
        return _checked(part, Answered(path.absolute().as_uri(), "application/pdf", "", ""), signal)


def _checked(part: PartFile, answered: Answered, signal: AbortSignal) -> Fetched:
    part.finish()
    signal.raise_if_aborted()
    return Fetched(
        part.path,
        part.sha256,
        part.size,
        answered.final_url,
        answered.content_type,
        answered.etag,
        answered.last_modified,
        "" if part.has_end else NO_END,
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
