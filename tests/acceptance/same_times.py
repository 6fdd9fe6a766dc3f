"""Has every process of a prefork pool dispatch at the same times, and notes each dispatch.

For a worker started with `-I tests.acceptance.same_times`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from queuemgr.lifecycle import redispatch_timer

FIRST, EVERY, TIMES = 8.0, 0.3, 8
"""Seconds after the worker's start, when its children have started; seconds between; how many."""

_first = time.monotonic() + FIRST
_log = Path(os.environ["SLUICE_DATA_DIR"], "dispatches.log")
_start = redispatch_timer.start


def _note(what: object) -> None:
    with _log.open("a") as log:
        log.write(f"{os.getpid()} {what}\n")


def _start_and_name_the_times(
    dispatch: Callable[[], object], start_thread: redispatch_timer.StartThread
) -> None:
    def noted() -> object:
        _note(round((time.monotonic() - _first) / EVERY))
        return dispatch()

    _start(noted, start_thread)
    for number in range(TIMES):
        redispatch_timer.schedule_redispatch(_first + number * EVERY - time.monotonic())
    _note("started")


redispatch_timer.start = _start_and_name_the_times
