"""Resume a download that was cut off, within one step or, on the same disk, in a later one.

Bytes are joined only if a strong ETag proves that they are of the same file (RFC 9110, 13.1.5 and
14.4). A worker claims a file kept for later by renaming it to its own temporary name, so only one of
two workers gets it and the other starts from the first byte.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
from pathlib import Path

import httpx

from pipeline.steps.fetch.partial_file import PARTIAL_SUFFIX, PartialFile

LEAST = 64 * 1024
"""Bytes: a smaller partial file is not worth keeping."""

MAX_ETAG = 80
"""Characters: a longer ETag would not fit into a file name."""

_STRONG = re.compile(r'"[\x21\x23-\x7e]*"')
_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15}|\*)")


def strong_etag(response: httpx.Response) -> str:
    """The ETag, if it is strong; empty also for a compressed body, whose byte offsets are not those
    of the file."""
    etag = str(response.headers.get("etag", ""))
    compressed = response.headers.get("content-encoding", "identity").strip().lower() != "identity"
    return "" if compressed or not _STRONG.fullmatch(etag) else etag


def range_headers(size: int, etag: str) -> dict[str, str]:
    """Request what follows the first `size` bytes, or the whole file if it has changed."""
    return {"Range": f"bytes={size}-", "If-Range": etag} if size and etag else {}


def whole_size(response: httpx.Response, size: int, etag: str) -> int | None:
    """The size of the whole file, if this 206 response starts at `size`, goes to the end, and is of
    the same file; None otherwise."""
    content_range = _RANGE.fullmatch(response.headers.get("content-range", "").strip())
    if content_range is None or strong_etag(response) not in ("", etag):
        return None
    first, end, total = int(content_range[1]), int(content_range[2]) + 1, content_range[3]
    return end if first == size and total in ("*", str(end)) else None


def keep(partial: PartialFile, into: Path, url: str, etag: str) -> None:
    """Keep the bytes received for a later step. Never fails: keeping them is optional."""
    if not etag or partial.size < LEAST or len(etag) > MAX_ETAG:
        return
    with contextlib.suppress(OSError, ValueError):
        partial.close()
        os.replace(partial.path, into / f"{_prefix(url)}{_encoded(etag)}{PARTIAL_SUFFIX}")


def load_partial(partial: PartialFile, into: Path, url: str) -> str:
    """Fill `partial` with what an earlier step kept of this URL; returns its ETag, or ""."""
    for kept in into.glob(f"{_prefix(url)}*{PARTIAL_SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):  # another worker claimed it first
            os.replace(kept, partial.path)
            partial.reopen()
            return _decoded(kept.name.removeprefix(_prefix(url)).removesuffix(PARTIAL_SUFFIX))
    return ""


def _prefix(url: str) -> str:
    return f"left-{hashlib.sha256(url.encode()).hexdigest()[:40]}-"


def _encoded(etag: str) -> str:
    return base64.urlsafe_b64encode(etag.encode()).decode().rstrip("=")


def _decoded(name: str) -> str:
    return base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
