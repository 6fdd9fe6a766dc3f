"""A PDF on its way in: written to a temporary file and judged by its bytes as they come."""

from __future__ import annotations

import hashlib
import html
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from queuemgr.errors import StepFailed

PART_SUFFIX = ".part"
"""Files so named, left by a killed process, may be removed once older than any download."""

HEAD = 1024
"""Bytes: a PDF says what it is within so many."""

_TITLE = re.compile(rb"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_LOOKS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"\s*\Z"), "an empty body"),
    (
        re.compile(rb".*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL),
        "an HTML page",
    ),
    (re.compile(rb"(\xef\xbb\xbf)?\s*<"), "an XML document"),
    (re.compile(rb"\s*[{\[]"), "JSON"),
    (re.compile(rb"%!PS"), "PostScript"),
    (re.compile(rb"PK\x03\x04"), "a ZIP archive"),
    (re.compile(rb"\x1f\x8b"), "a gzip file"),
    (re.compile(rb"\x89PNG|\xff\xd8\xff|GIF8"), "an image"),
    (re.compile(rb"[^\x00-\x08\x0e-\x1f]+\Z"), "plain text"),
)


class PartFile:
    """Takes pieces until `finish`; counts, hashes and checks them. Safe to `discard` at any time.

    Raises StepFailed: "too_large", "not_pdf", "storage".
    """

    def __init__(self, into: Path, max_bytes: int) -> None:
        self.source = ""
        self.size = 0
        self._max_bytes = max_bytes
        self._head = b""
        self._digest = hashlib.sha256()
        with _storing(into):
            handle, name = tempfile.mkstemp(prefix="fetch-", suffix=PART_SUFFIX, dir=into)
        self.path = Path(name)
        self._file = os.fdopen(handle, "wb")

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.size > self._max_bytes:
            raise StepFailed("too_large", f"{self.source} passes {self._max_bytes} bytes")
        self._judge_head(piece)
        self._digest.update(piece)
        with _storing(self.path):
            self._file.write(piece)

    def finish(self) -> None:
        """Check a body shorter than the head, and wait until the disk has everything."""
        if self.size < HEAD:
            self._refuse_other_than_pdf()
        with _storing(self.path), self._file:
            self._file.flush()
            os.fsync(self._file.fileno())

    def discard(self) -> None:
        """Remove the file. A write still under way in another thread is waited for by `close`."""
        with suppress(OSError):
            self._file.close()
        self.path.unlink(missing_ok=True)

    def _judge_head(self, piece: bytes) -> None:
        if len(self._head) < HEAD:
            self._head = (self._head + piece)[:HEAD]
            if len(self._head) == HEAD:
                self._refuse_other_than_pdf()

    def _refuse_other_than_pdf(self) -> None:
        if b"%PDF" not in self._head:
            raise StepFailed(
                "not_pdf",
                f"{self.source} gave {looks_like(self._head)} instead of a PDF; "
                f"it begins {self._head[:40]!r}",
            )


@contextmanager
def part_file(into: Path, max_bytes: int) -> Iterator[PartFile]:
    """A part file in `into`, kept when the block ends well and removed when it does not."""
    part = PartFile(into, max_bytes)
    try:
        yield part
    except BaseException:
        part.discard()
        raise


def looks_like(head: bytes) -> str:
    """What the first bytes of something seem to be, in words; a page is named by its title."""
    look = next((name for form, name in _LOOKS if form.match(head)), "unknown binary data")
    title = _TITLE.search(head) if look == "an HTML page" else None
    if title is None:
        return look
    words = html.unescape(title[1].decode("utf-8", "replace")).split()
    return f"{look} titled {' '.join(words)[:80]!r}"


@contextmanager
def _storing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StepFailed("storage", f"{place} could not be written: {error.strerror}") from error
