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

from queuemgr import StepFailed

PART_SUFFIX = ".part"
"""Files so named, left by a killed process, may be removed once older than any download."""

HEAD = 1024
"""Bytes: a PDF says what it is within so many."""

TAIL = 2048
"""Bytes: a PDF ends with `%%EOF` within so many. Some readable ones lack it, so it is only noted."""

_PAGE = "an HTML page"
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_LOOKS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"\s*\Z"), "an empty body"),
    (
        re.compile(rb".*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL),
        _PAGE,
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
        self._max_bytes = max_bytes
        with _storing(into):
            handle, name = tempfile.mkstemp(prefix="fetch-", suffix=PART_SUFFIX, dir=into)
        self.path = Path(name)
        self._file = os.fdopen(handle, "r+b")
        self._forget()

    def _forget(self) -> None:
        self.size = 0
        self.begun = self._tail = b""
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    @property
    def has_end(self) -> bool:
        """Whether it ends as a PDF does."""
        return b"%%EOF" in self._tail

    def write(self, piece: bytes) -> None:
        self._take(piece)
        with _storing(self.path):
            self._file.write(piece)

    def restart(self) -> None:
        """Forget what was written: what comes next is the file from its first byte."""
        self._forget()
        with _storing(self.path):
            self._file.seek(0)
            self._file.truncate()

    def reopen(self) -> None:
        """Go on with the file that now lies at `path`, read again from its first byte."""
        self._forget()
        with _storing(self.path):
            self._file.close()
            self._file = self.path.open("r+b")
            while piece := self._file.read(1024 * 1024):
                self._take(piece)

    def judge(self) -> None:
        """The body has ended: check one shorter than the head."""
        if self.size < HEAD:
            self._refuse_other_than_pdf()

    def finish(self) -> None:
        """Wait until the disk has everything."""
        self.judge()
        self.close()

    def close(self) -> None:
        """Wait until the disk has what was written. A write under way in another thread is waited for."""
        with _storing(self.path), self._file:
            self._file.flush()
            os.fsync(self._file.fileno())

    def discard(self) -> None:
        """Remove the file. A write still under way in another thread is waited for by `close`."""
        with suppress(OSError):
            self._file.close()
        self.path.unlink(missing_ok=True)

    def _take(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.size > self._max_bytes:
            raise StepFailed("too_large", f"{self.source} passes {self._max_bytes} bytes")
        self._judge_head(piece)
        self._digest.update(piece)
        self._tail = (self._tail + piece[-TAIL:])[-TAIL:]

    def _judge_head(self, piece: bytes) -> None:
        if len(self.begun) < HEAD:
            self.begun += piece
            if len(self.begun) >= HEAD:
                self._refuse_other_than_pdf()

    def _refuse_other_than_pdf(self) -> None:
        if b"%PDF-" not in self.begun[:HEAD]:
            raise no_pdf(self.source, self.begun)


def no_pdf(source: str, body: bytes) -> StepFailed:
    """The failure of what is no PDF: where it came from, what it seems to be, how it begins."""
    return StepFailed(
        "not_pdf",
        f"{source} gave {looks_like(body)} instead of a PDF; it begins {body[:40]!r}",
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


def is_page(body: bytes) -> bool:
    """Whether this begins an HTML page."""
    return _look(body) == _PAGE


def looks_like(body: bytes) -> str:
    """What something seems to be by its first bytes, in words; a page is named by its title."""
    look = _look(body)
    title = _TITLE.search(body) if look == _PAGE else None
    if title is None:
        return look
    words = html.unescape(title[1].decode("utf-8", "replace")).split()
    return f"{look} titled {' '.join(words)[:80]!r}"


def _look(body: bytes) -> str:
    head = body[:HEAD]
    return next((name for form, name in _LOOKS if form.match(head)), "unknown binary data")


@contextmanager
def _storing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StepFailed("storage", f"{place} could not be written: {error.strerror}") from error
