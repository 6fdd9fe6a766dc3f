"""Intermediate results of an expensive step, stored so that a retry does not pay for them again."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Any

from django.core.files.base import ContentFile
from django.db import transaction

from pipeline import files, storage
from queuemgr import Done

logger = logging.getLogger(__name__)


class JsonLinesCheckpoint:
    """A stored file with one JSON object a line.

    On a local disk each record is appended at once; on any other storage the file is written when the
    block of `saved_on_failure` raises. Raises `StepFailed("storage")` when it cannot be read.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lines = self._read().split("\n")
        self._unsaved = False
        self._lock = Lock()

    def records(self) -> Iterator[dict[str, Any]]:
        """The records, without a line cut off by a kill."""
        for line in self._lines:
            with suppress(ValueError):
                record = json.loads(line)
                if isinstance(record, dict):
                    yield record

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a record, from any thread. Raises what the storage raises."""
        line = json.dumps(record, ensure_ascii=False)
        with self._lock:
            self._lines.append(line)
            path = storage.local_path(self.name)
            if path is None:
                self._unsaved = True
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(f"\n{line}\n")  # the line before may have been cut off by a kill

    @contextmanager
    def saved_on_failure(self) -> Iterator[None]:
        """Save the file whatever the block raises, a lost lease or an abort included."""
        try:
            yield
        except BaseException:
            if self._unsaved:
                self._save()
            raise

    def deleted_after(self, done: Done) -> Callable[[], None]:
        """Store the result of the step, and delete the file when that is committed."""

        def store() -> None:
            if done.store is not None:
                done.store()
            transaction.on_commit(partial(files.remove, self.name), robust=True)

        return store

    def _save(self) -> None:
        try:
            storage.delete(self.name)
            storage.save(self.name, ContentFile("\n".join(self._lines).encode()))
        except Exception:  # must not hide what the block raised
            logger.warning("checkpoint %s could not be saved", self.name, exc_info=True)

    def _read(self) -> str:
        try:
            with storage.opened(self.name) as file:
                return file.read().decode("utf-8", "replace")
        except storage.FileMissing:
            return ""
