"""Where files of the queue are: messages of a broker that needs no server, logs, the schedule of beat."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings


def data_directory() -> Path:
    """`SLUICE_DATA_DIR`, else `.sluicegate` in the project's `BASE_DIR`; it may not exist yet."""
    stated = getattr(settings, "SLUICE_DATA_DIR", None)
    return Path(stated) if stated else Path(getattr(settings, "BASE_DIR", ".")) / ".sluicegate"
