"""What a step changes of its process is put back."""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Iterator

import pytest

from queuemgr.worker import process_wide
from tests.acceptance.hostile_process import CHANGES_ITS_PROCESS


@pytest.fixture(autouse=True)
def _here() -> Iterator[None]:
    before = process_wide.before_step()
    strays = {number: signal.getsignal(number) for number in process_wide.STRAY}
    process_wide.remember_start()
    process_wide.ignore_stray_signals()
    yield
    process_wide.put_back(before)
    for number, handler in strays.items():
        signal.signal(number, handler)


def state_of_process() -> tuple[object, ...]:
    return (
        sys.getrecursionlimit(),
        [resource.getrlimit(which) for which in process_wide.LIMITS],
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        [signal.getitimer(timer) for timer in process_wide.TIMERS],
        [signal.getsignal(number) for number in process_wide.GUARDED],
    )


@pytest.mark.parametrize("what", CHANGES_ITS_PROCESS)
def test_what_a_step_changes_of_its_process_is_put_back_or_survived(what: str) -> None:
    before, was = process_wide.before_step(), state_of_process()
    CHANGES_ITS_PROCESS[what]()
    process_wide.put_back(before)
    assert state_of_process() == was
    assert not process_wide.damage()


def test_a_timer_with_a_handler_of_somebody_else_is_theirs() -> None:
    """A profiler's, set before the worker started."""
    signal.signal(signal.SIGPROF, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_PROF, 60)
    process_wide.put_back(process_wide.before_step())
    assert signal.getitimer(signal.ITIMER_PROF)[0] > 0
    signal.setitimer(signal.ITIMER_PROF, 0)
