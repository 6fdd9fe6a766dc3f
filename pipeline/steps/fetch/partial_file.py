"""A partial file: a PDF being downloaded, written to a temporary file and checked as bytes arrive."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipeline.steps.http.character_references import unescaped
from queuemgr import StepFailed

PARTIAL_SUFFIX = ".part"
"""Such files, left by a killed process, may be removed once they are older than any download."""

HEAD = 1024
"""Bytes within which a PDF must have its `%PDF-` header."""

TAIL = 2048
"""Last bytes within which a PDF has `%%EOF`. Some readable ones lack it, so that is only a warning."""

TITLE_WITHIN = 16 * 1024
"""Bytes within which a page's title is looked for."""

_PAGE = "an HTML page"
_PAGE_TAG = re.compile(rb"<(?:!doctype\s{1,20}html|html|head|body)\b", re.IGNORECASE)
_LOOKS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"\s*\Z"), "an empty body"),
    (re.compile(rb"(\xef\xbb\xbf)?\s*<"), "an XML document"),
    (re.compile(rb"\s*[{\[]"), "JSON"),
    (re.compile(rb"%!PS"), "PostScript"),
    (re.compile(rb"PK\x03\x04"), "a ZIP archive"),
    (re.compile(rb"\x1f\x8b"), "a gzip file"),
    (re.compile(rb"\x89PNG|\xff\xd8\xff|GIF8"), "an image"),
    (re.compile(rb"[^\x00-\x08\x0e-\x1f]+\Z"), "plain text"),
)


class PartialFile:
    """Takes pieces until `finish`; counts, hashes and checks them. May be discarded at any time.

    Raises StepFailed: "too_large", "not_pdf", "storage".
    """

    def __init__(self, into: Path, max_bytes: int, *, of_this_machine: bool = False) -> None:
        self.source = ""
        self._max_bytes, self._of_this_machine = max_bytes, of_this_machine
        with _storage_errors(into):
            handle, name = tempfile.mkstemp(prefix="fetch-", suffix=PARTIAL_SUFFIX, dir=into)
        self.path = Path(name)
        self._file = os.fdopen(handle, "r+b")
        self._reset()

    def _reset(self) -> None:
        self.size = 0
        self.head = self._tail = b""
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    @property
    def has_end(self) -> bool:
        """Whether it ends like a PDF."""
        return b"%%EOF" in self._tail

    def write(self, piece: bytes) -> None:
        self._take(piece)
        with _storage_errors(self.path):
            self._file.write(piece)

    def restart(self) -> None:
        """Drop what was written: the file follows from its first byte."""
        self._reset()
        with _storage_errors(self.path):
            self._file.seek(0)
            self._file.truncate()

    def reopen(self) -> None:
        """Continue the file that is now at `path`, reading it from its first byte."""
        self._reset()
        with _storage_errors(self.path):
            self._file.close()
            self._file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b")
            while piece := self._file.read(1024 * 1024):
                self._take(piece)

    def check_head(self) -> None:
        """At the end of the body: check one that is shorter than the head."""
        if self.size < HEAD:
            self._require_pdf()

    def finish(self) -> None:
        """Check and flush everything to disk."""
        self.check_head()
        self.close()

    def close(self) -> None:
        """Flush to disk, after any write still running in another thread."""
        with _storage_errors(self.path), self._file:
            self._file.flush()
            os.fsync(self._file.fileno())

    def discard(self) -> None:
        """Remove the file; `close` waits for a write still running in another thread."""
        with suppress(OSError):
            self._file.close()
        self.path.unlink(missing_ok=True)

    def _take(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.size > self._max_bytes:
            raise StepFailed("too_large", f"{self.source} is larger than {self._max_bytes} bytes")
        self._collect_head(piece)
        self._digest.update(piece)
        self._tail = (self._tail + piece[-TAIL:])[-TAIL:]

    def _collect_head(self, piece: bytes) -> None:
        if len(self.head) < HEAD:
            self.head += piece
            if len(self.head) >= HEAD:
                self._require_pdf()

    def _require_pdf(self) -> None:
        if b"%PDF-" not in self.head[:HEAD]:
            failure = local_not_a_pdf if self._of_this_machine else not_a_pdf
            raise failure(self.source, self.head)


def local_not_a_pdf(source: str, body: bytes) -> StepFailed:
    """The failure for a file of this machine that is no PDF: what kind it is, and nothing of its content. It
    may be a file of others, or a secret, and more people read the failure than may read the file."""
    return StepFailed("not_pdf", f"{source} is {_look(body)}, not a PDF")


def not_a_pdf(source: str, body: bytes) -> StepFailed:
    """The failure for a body from the network that is no PDF: its source, what it looks like, its first
    bytes."""
    return StepFailed(
        "not_pdf", f"{source} returned {looks_like(body)} instead of a PDF; it begins {body[:40]!r}"
    )


@contextmanager
def partial_file(into: Path, max_bytes: int, *, of_this_machine: bool = False) -> Iterator[PartialFile]:
    """A partial file in `into`, removed if the block raises."""
    partial = PartialFile(into, max_bytes, of_this_machine=of_this_machine)
    try:
        yield partial
    except BaseException:
        partial.discard()
        raise


def is_page(body: bytes) -> bool:
    """Whether this is the start of an HTML page."""
    return _look(body) == _PAGE


def looks_like(body: bytes) -> str:
    """What a body looks like by its first bytes, in words; an HTML page with its title."""
    look = _look(body)
    words = _title_in(body[:TITLE_WITHIN]) if look == _PAGE else ""
    return f"{look} titled {words!r}" if words else look


def _title_in(page: bytes) -> str:
    """The first 80 characters of a page's title, on one line; empty without one."""
    lowered = page.lower()
    opened = lowered.find(b"<title")
    begin = lowered.find(b">", opened)
    end = lowered.find(b"</title", begin)
    if min(opened, begin, end) < 0:
        return ""
    return " ".join(unescaped(page[begin + 1 : end].decode("utf-8", "replace")).split())[:80]


def _look(body: bytes) -> str:
    head = body[:HEAD]
    if head.strip() and _PAGE_TAG.search(head):
        return _PAGE
    return next((name for form, name in _LOOKS if form.match(head)), "unknown binary data")


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StepFailed("storage", f"{path} could not be written: {error.strerror}") from error
