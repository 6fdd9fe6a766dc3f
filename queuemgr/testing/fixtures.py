"""Fixtures for pytest: `pytest_plugins = ["queuemgr.testing.fixtures"]` in `conftest.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from queuemgr.testing.clock import Clock
from queuemgr.testing.clock import clock as moved_clock
from queuemgr.testing.run import Ran
from queuemgr.testing.run import run_due as run


@pytest.fixture
def run_due() -> Callable[..., list[Ran]]:
    """`run_due()` runs what is due; see `queuemgr.testing`."""
    return run


@pytest.fixture
def queue_clock() -> Iterator[Clock]:
    """`queue_clock.advance(hours=2)` lets time pass for the queue."""
    with moved_clock() as clock:
        yield clock
