"""Threads a worker cannot do without: they continue after errors, or end the process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import OperationalError

from queuemgr.lifecycle import redispatch_timer
from queuemgr.worker import background_thread
from queuemgr.worker.background_thread import THREAD_DIED

SCRIPT = """
    import os, time
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.unit.worker.no_settings"
    from queuemgr.worker import background_thread

    def act():
        {body}

    background_thread.{start}
    time.sleep(20)
"""


def run(body: str, start: str) -> subprocess.CompletedProcess[str]:
    script = textwrap.dedent(SCRIPT).format(body=body, start=start)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("body", ["raise SystemExit(0)", "raise KeyboardInterrupt", "return", "1 / 0"])
def test_a_process_whose_vital_thread_ends_ends_with_it(body: str) -> None:
    """Whatever ended it: a worker that stores no results must not stay registered."""
    ended = run(body, 'start_vital("committer", act)')
    assert ended.returncode == THREAD_DIED
    assert "thread committer" in ended.stderr


def test_a_repeated_act_continues_after_errors() -> None:
    body = "count = globals()['count'] = globals().get('count', 0) + 1; 1 / 0 if count < 2 else os._exit(7)"
    assert run(body, 'repeat("beat", act)').returncode == 7


@pytest.mark.parametrize("error", [ZeroDivisionError, OperationalError])
def test_a_repeated_act_is_called_again_a_second_after_an_error(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    turns: list[type[BaseException] | None] = [None, error, None, SystemExit]

    def act() -> float:
        turn = turns.pop(0)
        if turn:
            raise turn
        return 30.0

    monkeypatch.setattr(background_thread.time, "sleep", slept.append)
    with pytest.raises(SystemExit):
        background_thread._repeat("sluice-renewal", act)
    assert slept == [30.0, background_thread.RETRY_SECONDS, 30.0]
    assert background_thread.RETRY_SECONDS == 1.0


@pytest.mark.parametrize("close_fails", [False, True])
@pytest.mark.parametrize("error", [ZeroDivisionError, OperationalError])
def test_the_thread_that_dispatches_in_time_continues_after_errors_and_is_vital(
    error: type[Exception], close_fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends it otherwise, such as `SystemExit`, reaches what started it, which ends the process."""

    def close() -> None:
        if close_fails:
            raise KeyError("no such session")

    def dispatch() -> None:
        raise errors.pop(0)

    errors: list[type[BaseException]] = [error, error, SystemExit]
    started: list[Callable[[], object]] = []
    monkeypatch.setattr(redispatch_timer, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(redispatch_timer, "KEEP_CONNECTION_SECONDS", -1.0)
    monkeypatch.setattr(redispatch_timer, "close_connections", close)
    timer = redispatch_timer.RedispatchTimer(dispatch, lambda name, run: started.append(run))
    timer.schedule(0)
    with pytest.raises(SystemExit):
        started[0]()
    assert not errors


def test_the_threads_that_slots_share_are_vital() -> None:
    """None is started in another way, by which it could end and leave its process behind."""
    loose = [
        path.name
        for path in (Path(redispatch_timer.__file__).parents[1]).glob("*/*.py")
        if "threading.Thread(" in path.read_text() and path.parent.name in ("worker", "lifecycle")
    ]
    assert loose == ["background_thread.py"]
