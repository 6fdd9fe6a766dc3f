"""Going on with a download that was cut off, within one step and, on the same disk, in a later one.

Only bytes of which the server said by a strong ETag that they are of one and the same file are ever
joined (RFC 9110, 13.1.5 and 14.4). A part left for later has a name of its own; who wants it renames
it to a name only it knows, so of two workers one has it and the other begins anew.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
from pathlib import Path

import httpx

from pipeline.steps.fetch.partial_file import PART_SUFFIX, PartFile

LEAST = 64 * 1024
"""Bytes: less is not worth keeping."""

MAX_ETAG = 80
"""Characters: a longer ETag would not fit into the name of a file."""

_STRONG = re.compile(r'"[\x21\x23-\x7e]*"')
_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15}|\*)")


def strong_etag(response: httpx.Response) -> str:
    """The ETag that tells whether two answers are the same bytes; empty where there is none, or the
    body is packed, so that places in it are not places in the file."""
    etag = str(response.headers.get("etag", ""))
    packed = response.headers.get("content-encoding", "identity").strip().lower() != "identity"
    return "" if packed or not _STRONG.fullmatch(etag) else etag


def range_headers(size: int, etag: str) -> dict[str, str]:
    """Ask for what follows the first `size` bytes, and for all of it if the file has changed."""
    return {"Range": f"bytes={size}-", "If-Range": etag} if size and etag else {}


def whole_size(response: httpx.Response, size: int, etag: str) -> int | None:
    """The size of the whole file, where this 206 begins at `size`, goes to the end, and is of the
    same file; None where it does not fit."""
    said = _RANGE.fullmatch(response.headers.get("content-range", "").strip())
    if said is None or strong_etag(response) not in ("", etag):
        return None
    first, end, total = int(said[1]), int(said[2]) + 1, said[3]
    return end if first == size and total in ("*", str(end)) else None


def keep(part: PartFile, into: Path, url: str, etag: str) -> None:
    """Leave what came so far for a later step. Never fails: it is only a saving."""
    if not etag or part.size < LEAST or len(etag) > MAX_ETAG:
        return
    with contextlib.suppress(OSError, ValueError):
        part.close()
        os.replace(part.path, into / f"{_prefix(url)}{_encoded(etag)}{PART_SUFFIX}")


def take_up(part: PartFile, into: Path, url: str) -> str:
    """Let `part` hold what an earlier step left of this URL; gives its ETag, or "" for none."""
    for kept in into.glob(f"{_prefix(url)}*{PART_SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):  # somebody else was quicker
            os.replace(kept, part.path)
            part.reopen()
            return _decoded(kept.name.removeprefix(_prefix(url)).removesuffix(PART_SUFFIX))
    return ""


def _prefix(url: str) -> str:
    return f"left-{hashlib.sha256(url.encode()).hexdigest()[:40]}-"


def _encoded(etag: str) -> str:
    return base64.urlsafe_b64encode(etag.encode()).decode().rstrip("=")


def _decoded(name: str) -> str:
    return base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
