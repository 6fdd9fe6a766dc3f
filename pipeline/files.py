"""Files on Django's storage: written to a scratch folder, stored only while the lease is held."""

from __future__ import annotations

import logging
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files import File
from django.utils import timezone

from pipeline import storage
from queuemgr import StepFailed, Work

logger = logging.getLogger(__name__)

SCRATCH_SECONDS = 24 * 3600
"""Longer than any step may take, so that no file still being written is removed."""

OCR_CHECKPOINTS = "ocr"
"""Folder of the storage with the pages read of documents whose OCR is not finished."""

CHECKPOINT_DAYS = 30
"""Longer than any backoff. A person may retry a failed document later, and pays for its pages again."""

CHECKPOINTS_PER_CLEANUP = 1000

_rng = random.SystemRandom()


def scratch() -> Path:
    """The folder for new files, on the disk of the local storage, so that storing them is a rename.

    Raises `StepFailed("storage")`.
    """
    folder: Path = settings.SLUICE_SCRATCH
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StepFailed("storage", f"{folder} could not be created: {error.strerror}") from error
    return folder


class _ScratchFile(File):  # type: ignore[type-arg]  # Django's File is not generic at run time
    """A finished file that the storage can rename instead of copying."""

    def temporary_file_path(self) -> str:
        return str(self.name)


def promote(work: Work, scratch_file: Path, name: str) -> str:
    """Move a finished file to the storage; returns its name there.

    Raises `LeaseLost` or `Aborted` if the lease is no longer held, and `StepFailed("storage")`. The
    scratch file is removed either way.
    """
    try:
        work.raise_if_lost()
        with scratch_file.open("rb") as handle:
            return storage.save(name, _ScratchFile(handle, name=str(scratch_file)))
    except OSError as error:
        raise StepFailed("storage", f"{name} could not be stored: {error.strerror}") from error
    finally:
        scratch_file.unlink(missing_ok=True)


def promote_once(work: Work, scratch_file: Path, name: str) -> str:
    """Promote a file named by the hash of its bytes, unless one of that name and size is stored.

    Raises as `promote` does.
    """
    try:
        size = scratch_file.stat().st_size
        stored = storage.exists(name) and storage.size(name) == size
    except OSError as error:
        raise StepFailed("storage", f"{name} could not be read: {error.strerror}") from error
    except StepFailed:
        scratch_file.unlink(missing_ok=True)
        raise
    if not stored:
        return promote(work, scratch_file, name)
    scratch_file.unlink(missing_ok=True)
    work.raise_if_lost()
    return name


def promote_text(work: Work, text: str, name: str) -> str:
    """Write text to a file and promote it."""
    try:
        descriptor, path = tempfile.mkstemp(dir=scratch())
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
    except OSError as error:
        raise StepFailed("storage", f"{name} could not be written: {error.strerror}") from error
    return promote(work, Path(path), name)


@contextmanager
def on_disk(file: Any) -> Iterator[Path]:
    """A local path of a stored file: its own, or of a temporary copy. Raises `StepFailed("storage")`."""
    if path := storage.local_path(file.name):
        with storage.opened(file.name):  # refuses what is no file, such as a link to one
            yield path
        return
    with tempfile.NamedTemporaryFile(dir=scratch(), suffix=".pdf") as copied:
        _copy(file.name, copied)
        yield Path(copied.name)


def _copy(name: str, to: Any) -> None:
    try:
        storage.copy(name, to)
        to.flush()
    except OSError as error:
        raise StepFailed("storage", f"{name} could not be copied: {error.strerror}") from error


def exists(file: Any) -> bool:
    """Whether this field has a stored file."""
    return bool(file) and storage.exists(file.name)


def holds(file: Any, size: int | None) -> bool:
    """Whether this field has a stored file of this size (None: of any)."""
    return exists(file) and size in (None, storage.size(file.name))


def remove(name: str) -> None:
    """Remove a stored file that is no longer used; a failure is only logged."""
    try:
        storage.delete(name)
    except StepFailed:
        logger.warning("%s is no longer used and could not be removed", name, exc_info=True)


def cleanup() -> int:
    """Remove scratch files that killed workers left a day ago, and old OCR checkpoints; returns how
    many files."""
    old = time.time() - SCRATCH_SECONDS
    left = [path for path in scratch().iterdir() if path.is_file() and path.stat().st_mtime < old]
    for path in left:
        path.unlink(missing_ok=True)
    return len(left) + remove_old_checkpoints()


def remove_old_checkpoints() -> int:
    """Remove OCR checkpoints that are `CHECKPOINT_DAYS` old, if the storage can list them.

    Checks a random sample of at most `CHECKPOINTS_PER_CLEANUP`, so that each is checked eventually.
    """
    before = timezone.now() - timedelta(days=CHECKPOINT_DAYS)
    try:
        names = storage.names_in(OCR_CHECKPOINTS)
        sample = _rng.sample(names, min(len(names), CHECKPOINTS_PER_CLEANUP))
        old = [name for name in sample if storage.modified_at(name) < before]
    except StepFailed:  # it does not answer: the next clean-up will find them
        return 0
    for name in old:
        remove(name)
    return len(old)
