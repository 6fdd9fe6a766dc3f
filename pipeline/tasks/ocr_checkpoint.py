"""What OCR has read of a document so far: kept from the first page on, so that none is paid twice.

A line a page, beside the other files of the document, written as pages come where the storage is a
disk, and at the end of a failed attempt elsewhere. The next attempt begins with what it finds.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from pipeline import files
from pipeline.models import Document
from pipeline.steps.pdf.page_outcomes import PageOutcome

logger = logging.getLogger(__name__)


class Part:
    """The pages read of one document by one engine; those that failed are not among them."""

    def __init__(self, document: Document, reader: str) -> None:
        of = hashlib.sha256(f"{document.sha256} {document.pdf.name} {reader}".encode()).hexdigest()
        self.name = f"{files.PARTS}/{document.file_stem}-{of[:10]}.jsonl"
        self.outcomes = {each.page: each for each in self._stored()}
        self._new: list[str] = []
        self._adding = Lock()

    def add(self, outcome: PageOutcome) -> None:
        """Keep a page that was read, or found blank; from any thread. Raises `OSError`."""
        if outcome.error is None:
            with self._adding:
                self._add(outcome)

    def _add(self, outcome: PageOutcome) -> None:
        self.outcomes[outcome.page] = outcome
        line = json.dumps(
            {"page": outcome.page, "attempts": outcome.attempts, "text": outcome.text,
             "blank": outcome.blank}, ensure_ascii=False,
        )  # fmt: skip
        path = files.local_path(self.name)
        if path is None:
            self._new.append(line)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")  # a line before it may have been cut off by a kill

    def save(self) -> None:
        """Put what was read on a storage that is no disk; to be called when an attempt fails."""
        if self._new:
            lines = "\n".join([*self._lines(), *self._new])
            default_storage.delete(self.name)
            default_storage.save(self.name, ContentFile(lines.encode()))
            self._new.clear()

    @contextmanager
    def saved_on_failure(self) -> Iterator[None]:
        """Save it whatever ends the block: a lost lease or an abort costs no page that was paid.

        What hinders the saving is logged, and does not hide what ended the block.
        """
        try:
            yield
        except BaseException:
            try:
                self.save()
            except Exception:
                logger.warning("pages read could not be kept as %s", self.name, exc_info=True)
            raise

    def _lines(self) -> list[str]:
        try:
            with default_storage.open(self.name, "rb") as file:
                return str(file.read().decode("utf-8", "replace")).split("\n")
        except FileNotFoundError:
            return []

    def _stored(self) -> Iterator[PageOutcome]:
        for line in self._lines():
            with suppress(ValueError, TypeError):  # cut off by a kill
                yield PageOutcome(**json.loads(line))
