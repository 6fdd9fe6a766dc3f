"""Slots of a lane: never more than it has, released however a step ends, left at an abort."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from pipeline.tasks import extract as extract_task
from pipeline.tasks import fetch as fetch_task
from queuemgr.base.errors import Aborted
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from queuemgr.steptools import process_lanes
from queuemgr.steptools.process_lanes import lane_slot


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
