"""The process that runs `doctor`: its variables and its data directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from django.conf import settings

from queuemgr.base.data_directory import data_directory as folder_of_files
from queuemgr.base.unknown_settings import unknown_settings
from queuemgr.flows.flow import CheckResult

FREE_BYTES = 1 << 30


def variables() -> Iterator[CheckResult]:
    """Environment variables, and names in Django's settings, that look like settings and are none."""
    for name, remedy in unknown_settings([*os.environ, *dir(settings)]):
        yield CheckResult("note", f"{name} is set, but there is no such setting", remedy)


def data_directory() -> Iterator[CheckResult]:
    folder = folder_of_files()
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not os.access(there, os.W_OK):
        yield CheckResult("bad", f"{folder} is not writable", "set SLUICE_DATA_DIR to a directory that is")
        return
    free = shutil.disk_usage(there).free
    what, remedy = f"{folder} is writable, {free >> 20} MiB free", "free some space: files are stored there"
    yield CheckResult("good", what) if free > FREE_BYTES else CheckResult("bad", what, remedy)
