"""Files on Django's storage: written to a scratch folder, stored only while the lease is held."""

from __future__ import annotations

import logging
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files import File
from django.core.files.storage import default_storage
from django.utils import timezone

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
            return str(default_storage.save(name, _ScratchFile(handle, name=str(scratch_file))))
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
        stored = default_storage.exists(name) and default_storage.size(name) == size
    except OSError as error:
        scratch_file.unlink(missing_ok=True)
        raise StepFailed("storage", f"{name} could not be read: {error.strerror}") from error
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


def local_path(name: str) -> Path | None:
    """The path of a stored file; None if the storage is not on a local disk."""
    try:
        return Path(default_storage.path(name))
    except NotImplementedError:  # raised by storages without local paths
        return None


@contextmanager
def on_disk(file: Any) -> Iterator[Path]:
    """A local path of a stored file: its own, or of a temporary copy."""
    if path := local_path(file.name):
        yield path
        return
    with tempfile.NamedTemporaryFile(dir=scratch(), suffix=".pdf") as copy:
        with file.open("rb") as stored:
            copy.writelines(stored.chunks())
        copy.flush()
        yield Path(copy.name)


def exists(file: Any) -> bool:
    """Whether this field has a stored file."""
    return bool(file) and default_storage.exists(file.name)


def holds(file: Any, size: int | None) -> bool:
    """Whether this field has a stored file of this size (None: of any)."""
    return exists(file) and size in (None, default_storage.size(file.name))


def remove(name: str) -> None:
    """Remove a stored file that is no longer used; a failure is only logged."""
    try:
        default_storage.delete(name)
    except OSError:
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
        names = [f"{OCR_CHECKPOINTS}/{name}" for name in default_storage.listdir(OCR_CHECKPOINTS)[1]]
        sample = _rng.sample(names, min(len(names), CHECKPOINTS_PER_CLEANUP))
        old = [name for name in sample if _modified(name) < before]
    except (NotImplementedError, OSError):  # it cannot list files, has none, or does not answer
        return 0
    for name in old:
        remove(name)
    return len(old)


def _modified(name: str) -> datetime:
    """When a file was last written; now for one that has been removed meanwhile."""
    try:
        found = default_storage.get_modified_time(name)
    except FileNotFoundError:
        return timezone.now()
    return found if timezone.is_aware(found) else timezone.make_aware(found)
