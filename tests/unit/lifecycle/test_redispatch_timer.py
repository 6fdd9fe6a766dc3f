"""The timers of a worker's processes, which name the same times: each is one dispatch of one of them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from queuemgr.lifecycle import redispatch_timer
from queuemgr.lifecycle.redispatch_timer import TICK, LastDispatch, RedispatchTimer


def _tick(seconds: float = 0.0) -> int:
    return int((time.monotonic() + seconds) / TICK)


def _start_thread(name: str, run: Callable[[], object]) -> None:
    threading.Thread(target=run, name=name, daemon=True).start()


@pytest.fixture(autouse=True)
def without_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redispatch_timer, "one_turn", nullcontext)
    monkeypatch.setattr(redispatch_timer, "close_connections", lambda: None)


def test_a_time_that_several_children_name_is_one_dispatch() -> None:
    last, began = LastDispatch(), list[int]()
    timers = [RedispatchTimer(lambda: began.append(_tick()), _start_thread, last) for _ in range(8)]
    due = _tick(0.2)
    for timer in timers:
        timer.schedule(due * TICK - time.monotonic())
    time.sleep(0.6)
    assert 1 <= len(began) <= 2, "two that wake in the same instant may both see that nobody has begun"
    assert min(began) >= due


def test_a_time_that_comes_after_the_last_dispatch_began_is_another() -> None:
    last = LastDispatch()
    assert last.begin(now := _tick())
    assert not last.begin(now)
    assert not last.begin(now - 1)
    assert last.begin(_tick() + 1)


def test_a_forked_child_and_its_parent_know_of_each_others_dispatches() -> None:
    last, now = LastDispatch(), _tick()
    child = os.fork()
    if not child:
        os._exit(0 if last.begin(now) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not last.begin(now)


def test_a_dispatch_that_failed_is_tried_again_by_the_one_that_had_begun_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redispatch_timer, "RETRY_SECONDS", 0.03)
    done, failures = threading.Event(), iter([RuntimeError("no"), RuntimeError("again no")])

    def dispatch() -> None:
        for failure in failures:
            raise failure
        done.set()

    RedispatchTimer(dispatch, _start_thread, LastDispatch()).schedule(0.0)
    assert done.wait(5)
