"""The process that runs `doctor`: its variables and its data directory."""

from __future__ import annotations

import difflib
import os
import shutil
from collections.abc import Iterator

from queuemgr.base.data_directory import data_directory as folder_of_files
from queuemgr.base.program_secrets import all_groups
from queuemgr.base.settings_group import COMMAND_LINE
from queuemgr.flows.flow import CheckResult

FREE_BYTES = 1 << 30


def variables() -> Iterator[CheckResult]:
    """Environment variables named like settings that are none: a typo would go unnoticed."""
    known = {config.variable(name) for config in all_groups() for name in config.model_fields}
    known |= {COMMAND_LINE, "SLUICE_LOG_LEVEL"}
    for name in sorted(os.environ):
        if name.startswith("SLUICE_") and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            remedy = f"did you mean {near[0]}?" if near else "see docs/configuration.md"
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
