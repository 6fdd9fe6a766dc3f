"""Switches of the application: files in the data directory that a fault creates and removes."""

from __future__ import annotations

import os
from pathlib import Path

STORAGE_AWAY, CALLBACKS_RAISE = "storage-is-away", "callbacks-raise"
CALLBACK_LOG = "callbacks.log"


def is_on(switch: str) -> bool:
    return (folder() / switch).exists()


def folder() -> Path:
    """The data directory of this fleet."""
    return Path(os.environ["SLUICE_DATA_DIR"])
