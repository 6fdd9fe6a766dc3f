"""The notes on a long paper's parts so far: kept from the first one on, so that none is paid twice.

A line a part, beside the other files of the document, written as notes come where the storage is a
disk, and at the end of a failed attempt elsewhere. The next attempt begins with what it finds.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from pipeline import files
from pipeline.models import Document
from queuemgr import StepFailed

logger = logging.getLogger(__name__)


class KeptNotes:
    """The notes on one document, each under the digest of the request it answers. As a context it
    saves them when the block fails. Raises `StepFailed("storage")` when they cannot be read."""

    def __init__(self, document: Document) -> None:
        self.name = f"analysis/{document.file_stem}.parts.jsonl"
        self.notes = dict(self._stored())
        self._unsaved = False
        self._lock = threading.Lock()

    def __enter__(self) -> KeptNotes:
        return self

    def __exit__(self, _type: object, error: object, _trace: object) -> None:
        if error is not None and self._unsaved:
            self._try("saved", self._save)

    def keep(self, digest: str, note: str) -> None:
        """Keep a note, in whatever thread. One that cannot be kept is used all the same."""
        with self._lock:
            self.notes[digest] = note
            self._try("kept", lambda: self._append(_line(digest, note)))

    def forget(self) -> None:
        """Remove them: the analysis made of them is stored for good."""
        default_storage.delete(self.name)

    def _append(self, line: str) -> None:
        path = files.local_path(self.name)
        if path is None:
            self._unsaved = True
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")  # a line before it may have been cut off by a kill

    def _save(self) -> None:
        lines = "\n".join(_line(digest, note) for digest, note in self.notes.items())
        default_storage.delete(self.name)
        default_storage.save(self.name, ContentFile(lines.encode()))

    def _try(self, what: str, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception as error:  # a storage raises what it likes; the note itself is at hand
            logger.warning("notes in %s could not be %s: %s", self.name, what, type(error).__name__)

    def _stored(self) -> Iterator[tuple[str, str]]:
        try:
            with default_storage.open(self.name, "rb") as file:
                lines = file.read().decode("utf-8", "replace").split("\n")
        except FileNotFoundError:
            return
        except OSError as error:
            raise StepFailed(
                "storage", f"{self.name} could not be read: {error.strerror}"
            ) from error
        for line in lines:
            with suppress(ValueError, TypeError, KeyError):  # cut off by a kill
                kept = json.loads(line)
                yield str(kept["digest"]), str(kept["note"])


def _line(digest: str, note: str) -> str:
    return json.dumps({"digest": digest, "note": note})
