"""Putting files on Django's storage: made beside, promoted only while the lease holds."""

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

LEFT_BEHIND_SECONDS = 24 * 3600
"""Longer than any step may take, so no file still being written is removed."""

PARTS = "ocr"
"""Folder of the storage for pages OCR has read of documents it is not through with."""

PART_DAYS = 30
"""Longer than any wait between two attempts; a person may still have a failed document retried, and
pays for its pages again after that."""

PARTS_LOOKED_AT = 1000

_rng = random.SystemRandom()


def scratch() -> Path:
    """Where files are made: on the disk of the local storage, so that promoting is a rename.

    Raises `StepFailed("storage")`.
    """
    folder: Path = settings.SLUICE_SCRATCH
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StepFailed("storage", f"{folder} could not be made: {error.strerror}") from error
    return folder


class _Made(File):  # type: ignore[type-arg]  # Django's File is not generic at run time
    """A finished file; the storage renames it into place where it can, instead of copying."""

    def temporary_file_path(self) -> str:
        return str(self.name)


def promote(work: Work, made: Path, name: str) -> str:
    """Put a finished file in its final place; returns its name there.

    Raises `LeaseLost` or `Aborted` when it is no longer ours to place, and `StepFailed("storage")`.
    The file made is gone either way.
    """
    try:
        work.raise_if_lost()
        with made.open("rb") as handle:
            return str(default_storage.save(name, _Made(handle, name=str(made))))
    except OSError as error:
        raise StepFailed("storage", f"{name} could not be stored: {error.strerror}") from error
    finally:
        made.unlink(missing_ok=True)


def promote_once(work: Work, made: Path, name: str) -> str:
    """Promote a file named by its bytes; one of that name and size is already it, and is left alone.

    Raises as `promote` does.
    """
    try:
        size = made.stat().st_size
        there = default_storage.exists(name) and default_storage.size(name) == size
    except OSError as error:
        made.unlink(missing_ok=True)
        raise StepFailed("storage", f"{name} could not be looked at: {error.strerror}") from error
    if not there:
        return promote(work, made, name)
    made.unlink(missing_ok=True)
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
    """Where a stored file lies, or would, on this machine; None where the storage is elsewhere."""
    try:
        return Path(default_storage.path(name))
    except NotImplementedError:  # what Django's storages raise that have no paths
        return None


@contextmanager
def on_disk(file: Any) -> Iterator[Path]:
    """A path of a stored file: its own on local storage, else of a copy that is removed again."""
    if path := local_path(file.name):
        yield path
        return
    with tempfile.NamedTemporaryFile(dir=scratch(), suffix=".pdf") as copy:
        with file.open("rb") as stored:
            copy.writelines(stored.chunks())
        copy.flush()
        yield Path(copy.name)


def exists(file: Any) -> bool:
    """Is there a stored file behind this field?"""
    return bool(file) and default_storage.exists(file.name)


def holds(file: Any, size: int | None) -> bool:
    """Is there a stored file behind this field, of this size (None: of any)?"""
    return exists(file) and size in (None, default_storage.size(file.name))


def remove(name: str) -> None:
    """Remove a stored file nothing names any more; one that cannot be is left, and logged."""
    try:
        default_storage.delete(name)
    except OSError:
        logger.warning("%s is no longer used and could not be removed", name, exc_info=True)


def cleanup() -> int:
    """Remove half-made files of workers that were killed: those untouched for a day; and pages of OCR
    kept for a retry that never came."""
    old = time.time() - LEFT_BEHIND_SECONDS
    left = [path for path in scratch().iterdir() if path.is_file() and path.stat().st_mtime < old]
    for path in left:
        path.unlink(missing_ok=True)
    return len(left) + tidy_parts()


def tidy_parts() -> int:
    """Remove files under `PARTS` untouched for `PART_DAYS`, where the storage can list them.

    At most `PARTS_LOOKED_AT` are looked at, by chance, so that each has its turn in time.
    """
    before = timezone.now() - timedelta(days=PART_DAYS)
    try:
        names = [f"{PARTS}/{name}" for name in default_storage.listdir(PARTS)[1]]
        some = _rng.sample(names, min(len(names), PARTS_LOOKED_AT))
        old = [name for name in some if _touched(name) < before]
    except (NotImplementedError, OSError):  # it cannot list, or holds none, or is away
        return 0
    for name in old:
        remove(name)
    return len(old)


def _touched(name: str) -> datetime:
    """When a file was last written; now for one that is gone meanwhile."""
    try:
        found = default_storage.get_modified_time(name)
    except FileNotFoundError:
        return timezone.now()
    return found if timezone.is_aware(found) else timezone.make_aware(found)
