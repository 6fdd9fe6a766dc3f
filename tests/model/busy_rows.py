"""What meets rows that somebody has locked, is done again a little later: as a worker does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from queuemgr.lifecycle.lease_locks import RowsBusy

T = TypeVar("T")


def when_free(act: Callable[[], T]) -> T:
    deadline = time.monotonic() + 60
    while True:
        try:
            return act()
        except RowsBusy:
            assert time.monotonic() < deadline
            time.sleep(0.01)
