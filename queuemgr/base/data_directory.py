"""Where files of the queue are: messages of a broker that needs no server, logs, the schedule of beat."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from django.conf import settings


def data_directory() -> Path:
    """`SLUICE_DATA_DIR`, else `.sluicegate` in the project's `BASE_DIR`; it may not exist yet."""
    stated = getattr(settings, "SLUICE_DATA_DIR", None)
    return Path(stated) if stated else Path(getattr(settings, "BASE_DIR", ".")) / ".sluicegate"


def make_data_directory() -> Path:
    """The directory, made if need be, and kept out of the project's version control where it is in the
    project."""
    directory = data_directory()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if directory.name == ".sluicegate":
        with suppress(FileExistsError), (directory / ".gitignore").open("x") as file:
            file.write("*\n")
    return directory
