"""Whatever a flow's callback does to its process, the callbacks and jobs after it run in that process.

Each case runs in a child of its own, which does what a worker of periodic jobs does.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from django.db import connection

from queuemgr.models import CallbackFailure, Limit
from queuemgr.scheduling import limit_rows
from queuemgr.worker import beat, housekeeping, logging_guard, process_wide, registration
from tests.acceptance import hostile_code as hostile
from tests.acceptance.hostile_process import BREAKS_LOGGING, CHANGES_ITS_PROCESS
from tests.acceptance.hostile_stores import FORKS
from tests.integration.worker.test_callbacks_of_flows import GOOD, make_flow, registered
from tests.unit.worker.test_process_wide import state_of_process

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.only_on("postgres", why="what is tried is of the process"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]

PERIODIC = ("backfill", "cleanup", "limits")

Cases = Mapping[str, Callable[[], object]]

ESCAPES = ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "CancelledError", "OfItsOwn", "Unutterable")
SIGNALS = (f"signal-{int(signal.SIGUSR2)}", f"signal-{int(signal.SIGRTMAX)}")
KINDS: Mapping[str, tuple[Cases, bool | None]] = {
    "does what a step may do": (hostile.HARMLESS, True),
    "changes its process": (
        {
            what: act for what, act in CHANGES_ITS_PROCESS.items()
            if what in SIGNALS or not what.startswith(("signal-", "recursion-"))
        }, True,
    ),
    "leaves itself no recursion": ({"limit": CHANGES_ITS_PROCESS["recursion-limit"]}, None),
    "forks and does not wait": ({"fork": FORKS["fork-and-not-wait"]}, True),
    "raises what no Exception is": ({what: partial(hostile.act, what) for what in ESCAPES}, False),
    "breaks logging, and raises": (BREAKS_LOGGING, False),
}  # fmt: skip
"""By kind: what a callback of each case does, and whether it has worked nevertheless; None: either."""


@pytest.fixture(autouse=True)
def _quick(sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "SLEEPS", 0.01)
    monkeypatch.setattr(housekeeping, "claim", lambda *given, **named: True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_continues_after_a_callback_that_misuses_it(kind: str) -> None:
    assert registration, "imported, so that a child opens connections of its own"
    cases, works = KINDS[kind]
    connection.close()
    problems = {
        what: problem for what, act in cases.items() if (problem := in_a_child(partial(_work, act, works)))
    }
    assert problems == {}, "\n".join(problems.values())


def _work(act: Callable[[], object], works: bool | None) -> None:
    """Do what a worker of periodic jobs does, with a flow all of whose periodic callbacks do this."""
    become_a_worker()
    before = state_of_process()
    with registered(make_flow("odd", **{name: _then(act, name) for name in PERIODIC}), make_flow("good")):
        for callback, (of_odd, of_good) in _jobs():
            assert state_of_process() == before, f"{callback} left its process as {state_of_process()}"
            assert of_good and of_odd in ([works] if works is not None else [True, False]), callback
            reported = CallbackFailure.objects.filter(flow="odd", callback=callback).exists()
            assert reported != of_odd, callback
    assert not CallbackFailure.objects.exclude(flow="odd").exists()
    with registered(make_flow("odd", limits=_then(int, "limits")), make_flow("good")):
        assert all(all(done) for _, done in _jobs()), "once it is corrected"
    assert not CallbackFailure.objects.exists()


def _then(act: Callable[[], object], name: str) -> Callable[..., Any]:
    """A callback that does this and then what it should; `limits` states one of the flow's own."""

    def callback(*arguments: Any) -> Any:
        act()
        return {"host:odd": {"max_running": 1}} if name == "limits" else GOOD[name](*arguments)

    return callback


def _jobs() -> Iterator[tuple[str, tuple[bool, bool]]]:
    """Run the jobs that call callbacks; by callback, whether that of each flow, odd and good, worked."""
    done = beat.backfill()
    yield "backfill", (done["odd"] == 1, done["good"] == 1)
    removed = beat.prune()["files"]
    yield "cleanup", (removed == 2, removed >= 1)
    Limit.objects.all().delete()
    limit_rows.sync()
    names = set(Limit.objects.values_list("name", flat=True))
    yield "limits", ("host:odd" in names, "host:good" in names)


def become_a_worker() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, frame: None)
    logging_guard.install()
    process_wide.remember_start()
    process_wide.ignore_stray_signals()


def in_a_child(run: Callable[[], object]) -> str:
    """Run this in a forked child; returns what it raised, or how it was killed, and nothing if neither."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        said = ""
        try:
            run()
        except BaseException:
            said = traceback.format_exc()
        finally:
            os.write(write, said[-8_000:].encode(errors="replace"))
            os._exit(0)
    os.close(write)
    with open(read, errors="replace") as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return said or (f"it ended with {code}" if code else "")
