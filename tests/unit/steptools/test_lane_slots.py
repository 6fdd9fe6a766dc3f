"""Slots of a lane: never more than it has, first come first served, released however a step ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.tasks import extract as extract_task
from pipeline.tasks import fetch as fetch_task
from queuemgr.base.errors import Aborted
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from queuemgr.scheduling.phase_settings import TimeLimits
from queuemgr.steptools import process_lanes
from queuemgr.steptools.process_lanes import Slots, lane_slot
from queuemgr.worker.running_steps import RunningStep


def wait_until(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up, "it did not come to pass"
        time.sleep(0.001)


@pytest.fixture(autouse=True)
def _two_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_lanes, "lanes", lambda: SimpleNamespace(value=lambda name: 2))


def test_no_more_run_at_once_than_the_lane_has_slots() -> None:
    """Eight slots do not start eight parsers on two processors."""
    running, most, lock = 0, 0, threading.Lock()

    def work(_: int) -> None:
        nonlocal running, most
        with lane_slot("cpu", NEVER):
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.02)
            with lock:
                running -= 1

    with ThreadPoolExecutor(8) as slots:
        list(slots.map(work, range(24)))
    assert (most, running) == (2, 0)


def test_slots_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    """A step that asks last is not served first, however often slots change hands meanwhile."""
    slots, served, threads = Slots(1), list[int](), list[threading.Thread]()
    slots.take(NEVER)

    def work(number: int) -> None:
        slots.take(NEVER)
        served.append(number)
        slots.give_back()

    for number in range(12):
        threads.append(threading.Thread(target=work, args=(number,)))
        threads[-1].start()
        wait_until(lambda: len(slots.waiting) > number)  # noqa: B023 - called in this round
    slots.give_back()
    for thread in threads:
        thread.join(60)
    assert served == list(range(12))


def test_a_slot_handed_to_a_step_that_is_aborted_goes_to_the_next_one() -> None:
    """Whichever comes first, the slot or the abort: none is lost, and nobody else waits longer for it."""
    for _ in range(20):
        slots, signal = Slots(1), AbortSignal()
        slots.take(NEVER)
        with ThreadPoolExecutor(2) as threads:
            first = threads.submit(slots.take, signal)
            wait_until(lambda: slots.waiting)  # noqa: B023 - called in this round
            second = threads.submit(slots.take, NEVER)
            wait_until(lambda: len(slots.waiting) == 2)  # noqa: B023 - called in this round
            threading.Thread(target=signal.abort, args=("stop",)).start()
            slots.give_back()
            if first.exception(60) is None:
                slots.give_back()
            second.result(60)
            slots.give_back()
        slots.take(NEVER)
        assert not slots.waiting


def test_waiting_for_a_slot_counts_to_no_time_limit() -> None:
    grant: Any = SimpleNamespace(not_before=0.0)
    step = RunningStep(grant, TimeLimits(0.05, 0.05))
    slots = Slots(1)
    slots.take(NEVER)
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(slots.take, step.signal)
        wait_until(lambda: step.signal.waited > 1)
        assert step.ran < time.monotonic() - step.started - 1
        slots.give_back()
        waits.result(60)
    waited = step.signal.waited
    wait_until(lambda: step.ran > 0.05)
    assert step.signal.waited == waited


def test_a_slot_is_released_when_the_work_in_it_fails() -> None:
    for _ in range(5):
        with pytest.raises(ValueError), lane_slot("cpu", NEVER):
            raise ValueError
    with lane_slot("cpu", NEVER), lane_slot("cpu", NEVER):
        pass


def test_waiting_for_a_slot_ends_with_the_abort_signal() -> None:
    signal = AbortSignal()
    with lane_slot("cpu", NEVER), lane_slot("cpu", NEVER):
        threading.Timer(0.3, signal.abort, ("stop",)).start()
        with pytest.raises(Aborted, match="stop"), lane_slot("cpu", signal):
            pytest.fail("no slot was free")


def test_a_pdf_is_read_in_a_slot_of_the_cpu_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    signal = AbortSignal()
    document = SimpleNamespace(pdf=None)
    monkeypatch.setattr(extract_task, "load", lambda work: document)
    with lane_slot("cpu", NEVER), lane_slot("cpu", NEVER):
        threading.Timer(0.3, signal.abort, ("stop",)).start()
        with pytest.raises(Aborted, match="stop"):
            extract_task.extract_step.run(SimpleNamespace(signal=signal))


def test_a_local_file_is_copied_in_one_of_the_slots_for_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    signal = AbortSignal()
    document = SimpleNamespace(pdf=None, size=None, local_path="/a.pdf")
    monkeypatch.setattr(fetch_task, "load", lambda work: document)
    with lane_slot("import", NEVER), lane_slot("import", NEVER):
        threading.Timer(0.3, signal.abort, ("stop",)).start()
        with pytest.raises(Aborted, match="stop"):
            fetch_task.fetch_step.run(SimpleNamespace(signal=signal))
