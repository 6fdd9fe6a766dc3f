"""A flow's callback that does not end is named, its process ends, and it is left out for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from queuemgr.base import overdue_calls
from queuemgr.base.config import QueueSettings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import callbacks
from queuemgr.flows.callbacks import CallbackFailed
from queuemgr.lifecycle import callback_failures
from queuemgr.lifecycle.callback_failures import AGAIN_AFTER, DatabaseWatcher
from queuemgr.local import doctor
from queuemgr.models import CallbackFailure
from queuemgr.worker import housekeeping
from tests.integration.worker.test_callbacks_of_flows import GOOD, call, fails, make_flow, registered

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 0.3
"""So long a callback may run: a good one, called in this thread on a busy machine, ends before."""

TIMED = [*(name for name in GOOD if name not in callbacks.UNTIMED), "forget"]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callback_failures, "queue_settings", _quick)
    monkeypatch.setattr(doctor, "queue_settings", _quick)
    monkeypatch.setattr(overdue_calls, "LOOK_SECONDS", 0.01)


def _quick() -> QueueSettings:
    return QueueSettings.model_construct(callback_seconds=SECONDS)


class Hanging:
    """A callback that runs until it is released, and one of a process that notes that it would end."""

    def __init__(self) -> None:
        self.released, self.left, self.calls = threading.Event(), threading.Event(), 0

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        self.released.wait(30)

    def call(self, name: str) -> threading.Thread:
        """Call it in a thread of its own, as a slot of a worker is."""

        def run() -> None:
            with suppress(CallbackFailed):  # on SQLite it finds its connection closed
                call(name, lambda *arguments: self(*arguments) or GOOD.get(name, lambda *a: None)(*arguments))
            connection.close()

        thread = threading.Thread(target=run)
        thread.start()
        return thread


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.released.set()


@pytest.mark.parametrize("name", TIMED)
def test_a_callback_that_does_not_end_ends_its_process_and_is_left_out_for_a_while(
    name: str, hanging: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    callbacks.when_one_hangs(hanging.left.set)
    thread = hanging.call(name)
    assert hanging.left.wait(20)
    row = CallbackFailure.objects.get()
    assert str(row) == f"flow odd: {name} still ran after 0.3 s" and row.hung_at
    assert any("self.released.wait" in getattr(record, "lines", "") for record in caplog.records)
    hanging.released.set()
    thread.join()
    assert CallbackFailure.objects.exists(), "that it ended after all changes nothing"
    good = GOOD.get(name, lambda *arguments: None)
    callback_failures._seen.forget()
    assert f"flow odd: {name} is not called before" in fails(name, good)
    call("parse_item" if name == "link" else "link", GOOD["parse_item" if name == "link" else "link"])
    CallbackFailure.objects.update(hung_at=database_now() - AGAIN_AFTER - timedelta(seconds=1))
    callback_failures._seen.forget()
    call(name, good)


@pytest.mark.parametrize("name", TIMED)
def test_a_process_that_does_not_end_for_it_never_calls_it_a_second_time_meanwhile(
    name: str, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command, or a web server of another make: each such call would cost it another thread."""
    reported, hung = threading.Event(), DatabaseWatcher.hung
    monkeypatch.setattr(DatabaseWatcher, "hung", lambda *given: (hung(*given), reported.set()))
    thread = hanging.call(name)
    assert reported.wait(20) and CallbackFailure.objects.exists()
    assert "is not called: it still runs" in fails(name, GOOD.get(name, lambda *arguments: None))
    hanging.released.set()
    thread.join()
    call(name, GOOD.get(name, lambda *arguments: None))
    assert hanging.calls == 1


def test_the_other_flows_continue_while_one_is_left_out() -> None:
    now = database_now()
    row = {"problem": "still ran after 60 s", "since": now, "last_at": now, "hung_at": now}
    for name in ("backfill", "cleanup", "limits"):
        CallbackFailure.objects.create(flow="odd", callback=name, **row)
    callbacks.when_one_hangs(lambda: None)
    with registered(make_flow("odd"), make_flow("good")):
        assert housekeeping.backfill(10) == {"odd": 0, "good": 1}
        assert housekeeping.prune()["files"] == 1
    assert CallbackFailure.objects.count() == 3


def test_checks_that_do_not_end_are_a_line_of_doctor_which_continues() -> None:
    def hangs() -> Any:
        yield from GOOD["checks"]()
        time.sleep(60)

    with registered(make_flow("odd", checks=hangs), make_flow("good")):
        found = [result.what for result in doctor.run_checks()]
    assert "flow odd: checks raised StillRunning: after 0.3 s" in found
    assert found.count("the good flow's check") == 2, "and what it found before"


def test_a_call_that_ends_in_time_is_not_reported(hanging: Hanging) -> None:
    callbacks.when_one_hangs(hanging.left.set)
    for _ in range(3):
        call("link", GOOD["link"])
    time.sleep(2 * SECONDS)
    assert not hanging.left.is_set() and not CallbackFailure.objects.exists()


def test_the_time_in_which_its_process_was_frozen_is_not_held_against_a_callback() -> None:
    """A machine that was suspended, or a process that was stopped: nothing ran."""
    call = overdue_calls.Call(("odd", "backfill"), 60.0, lambda call: None)
    assert not call.runs_for(3600.0)
    assert [call.runs_for(0.5) for _ in range(120)].count(True) == 1
    assert call.overdue and not call.runs_for(0.5), "and is reported once"
