"""The checks of `manage.py doctor`: what is wrong with this installation, and what to do about it.

To add one: a function that yields `CheckResult`s in a module of `queuemgr/local/checks`, its line in
`CHECKS`, a row in docs/doctor.md for each misconfiguration it finds, and for each row a way to make it in
`tests/integration/local/misconfigurations.py`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from django.db import Error as DatabaseError

from queuemgr.base.config import queue_settings
from queuemgr.base.unreachable import why_away
from queuemgr.flows import callbacks
from queuemgr.flows.flow import CheckResult, Flow, all_flows
from queuemgr.local.checks import broker, database, failing_callbacks, fleet, installation, rehearsal


class Check(NamedTuple):
    """A check, and whether it is left out once the database has not answered."""

    run: Callable[[], Iterable[CheckResult]]
    needs_database: bool = True

    def __str__(self) -> str:
        module = getattr(self.run, "__module__", "").rpartition(".")[2]
        return f"the check {module}.{getattr(self.run, '__name__', 'of a flow')}"


CHECKS = (
    Check(installation.variables, needs_database=False),
    Check(installation.data_directory, needs_database=False),
    Check(database.answers),
    Check(database.pooling),
    Check(database.scheduler_lock),
    Check(database.migrations),
    Check(rehearsal.work),
    Check(database.clock),
    Check(broker.answers, needs_database=False),
    Check(fleet.workers),
    Check(fleet.brokers),
    Check(fleet.unknown_steps),
    Check(fleet.periodic_jobs),
    Check(fleet.allowances),
    Check(fleet.schedules),
    Check(fleet.webhooks),
    Check(fleet.leases),
    Check(failing_callbacks.within_a_day),
)


CHECK_SECONDS = 60
"""How long one check may take: a server that takes a question and does not answer must not hang them all."""


def run_checks() -> Iterator[CheckResult]:
    """Run every check. One that fails to run is a result itself, and the others still run; once the database
    has not answered, those that need it are left out."""
    flows = [Check(partial(_checks_of, flow), needs_database=False) for flow in all_flows()]
    database_answers = True
    for check in (*CHECKS, *flows):
        if check.needs_database and not database_answers:
            continue
        found: list[CheckResult] = []
        try:
            with interrupted_after(CHECK_SECONDS):
                found.extend(check.run())
        except StillRunning as error:
            found.append(CheckResult("bad", f"{check} still ran {error}", HANGS))
        except DatabaseError as error:
            database_answers = False
            away = why_away(error)
            found.append(CheckResult("bad", f"the database: {away.what}", away.remedy))
        yield from found


HANGS = "a server took the question and gave no answer: see its log, and that of a pooler or proxy in between"


def _checks_of(flow: Flow) -> list[CheckResult]:
    with interrupted_after(queue_settings().callback_seconds):
        return callbacks.checks(flow)


class StillRunning(BaseException):
    """Raised in code that has had its time."""


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raise `StillRunning` in the block after so many seconds, in the main thread: only there can it be."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise StillRunning(f"after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
