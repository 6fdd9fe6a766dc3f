"""Get a PDF from a URL or from the local disk into a checked temporary file.

The caller moves the file to its final place or removes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.steps.fetch import local_file
from pipeline.steps.fetch.download import Download, DownloadResult, FetchOptions, PdfRequest
from pipeline.steps.fetch.partial_file import PartialFile, partial_file
from pipeline.steps.http.client import HttpClient
from pipeline.steps.http.redirects import HostChanged, RedirectChain
from queuemgr import NEVER, AbortSignal, StepFailed

NO_END = "no %%EOF in its last 2 KB: it may be cut off"


@dataclass(frozen=True)
class Fetched:
    """A PDF in a temporary file, flushed to disk; `size` in bytes.

    `etag` and `last_modified` as the server sent them; `note`: a warning about the file.
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
    """The copy we have is still current."""


@dataclass(frozen=True)
class OtherHost:
    """The chain continues at `url`, on another host."""

    url: str
    chain: RedirectChain


def fetch(
    wanted: PdfRequest | str,
    into: Path,
    options: FetchOptions,
    http: HttpClient,
    signal: AbortSignal,
    chain: RedirectChain | None = None,
) -> Fetched | Unchanged | OtherHost:
    """Download a PDF to a temporary file in the directory `into`.

    After a failure only a file that a later call can resume is left there (see `resume`). Returns
    OtherHost only for a chain bound to one host, Unchanged only if a stored copy was given. Raises
    Aborted, and StepFailed: "not_pdf", "too_large", "timeout", "network", "refused_address",
    "bad_answer", "storage", and the kinds of HTTP statuses (see `http.failure`).
    """
    wanted = PdfRequest(wanted) if isinstance(wanted, str) else wanted
    with partial_file(into, options.max_bytes) as partial:
        download = Download(wanted, partial, options, http, chain or RedirectChain(), signal)
        try:
            result = http.run(download.run(), signal)
        except HostChanged as other:
            partial.discard()
            return OtherHost(other.url, download.chain)
        except StepFailed as failure:
            download.keep(failure)
            raise
        if not result.changed:
            partial.discard()
            return Unchanged()
        return _checked(partial, result, signal)


def adopt(
    path: Path, into: Path, options: FetchOptions, signal: AbortSignal = NEVER, within: Path | None = None
) -> Fetched:
    """Copy a local file to a temporary file in `into`, with the same checks as a download. `within`: the
    folder it must really lie in.

    Raises Aborted, and StepFailed: "not_found", "refused_file", "not_pdf", "too_large", "storage".
    """
    with partial_file(into, options.max_bytes, of_this_machine=True) as partial, _readable(path):
        partial.source = str(path)
        with local_file.open_file(path, within) as original:
            while piece := original.read(1024 * 1024):
                signal.raise_if_aborted()
                partial.write(piece)
        return _checked(partial, DownloadResult(path.absolute().as_uri(), "application/pdf", "", ""), signal)


def _checked(partial: PartialFile, result: DownloadResult, signal: AbortSignal) -> Fetched:
    partial.finish()
    signal.raise_if_aborted()
    return Fetched(
        partial.path,
        partial.sha256,
        partial.size,
        result.final_url,
        result.content_type,
        result.etag,
        result.last_modified,
        "" if partial.has_end else NO_END,
    )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise StepFailed("not_found", f"there is no file {path}") from error
    except PermissionError as error:
        raise StepFailed("not_found", f"this process may not read the file {path}") from error
    except OSError as error:
        raise StepFailed("storage", f"{path} could not be read: {error}") from error
