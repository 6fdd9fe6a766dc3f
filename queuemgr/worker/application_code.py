"""Runs a step, the application's code, in a slot; whatever it does, the slot gets an outcome and continues.

A step may raise anything (`sys.exit()` included), return anything, fork, close the database connection or
leave a transaction open, and install signal handlers. What it leaves behind is undone before the next
step runs in its thread.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from billiard import common as billiard

from queuemgr.base import sql
from queuemgr.base.application_call import end_if_forked
from queuemgr.base.db_connection import discard_connections, open_blocks
from queuemgr.base.errors import Aborted, BadInput, LeaseLost, StepFailed
from queuemgr.base.raised import is_raised
from queuemgr.base.redaction import describe_error, message_of
from queuemgr.base.traceback_text import traceback_of
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcome_checks import checked
from queuemgr.flows.outcomes import Failed, Interrupted, Result, Skipped
from queuemgr.worker import process_wide
from queuemgr.worker.shutting_down import is_shutting_down

logger = logging.getLogger(__name__)


def outcome_of(run: Callable[[], object], abort: AbortSignal) -> Result:
    """Run a step; returns the outcome it returned, or the one its exception stands for."""
    own, before, blocks = os.getpid(), process_wide.before_step(), open_blocks()
    try:
        result = _run(run, abort, own)
    finally:
        process_wide.put_back(before)
    if not discard_connections(blocks) or isinstance(result, Failed | Interrupted | Skipped):
        return result
    return Failed(
        "unexpected", "it left a transaction open, whose writes were rolled back: end it in the step"
    )


def _run(run: Callable[[], object], abort: AbortSignal, own: int) -> Result:
    try:
        returned = run()
    except BaseException as error:  # sys.exit() in a step must not take its slot
        end_if_forked(own, error)
        return as_result(error, abort)
    end_if_forked(own, None)
    return checked(returned)


def as_result(error: BaseException, abort: AbortSignal) -> Result:
    """The outcome that an exception raised by a step stands for, whatever happens when it is read."""
    try:
        return _as_result(error, abort)
    except BaseException as second:  # its attributes are the application's code, too
        if is_shutting_down():
            return Interrupted("shutdown")
        return Failed("unexpected", f"{describe_error(error)}; {unreadable(second)}")


def _as_result(error: BaseException, abort: AbortSignal) -> Result:
    if is_raised(error, StepFailed):
        return checked(
            Failed(error.kind, error.message, error.retry_after, limit=error.limit, meter=error.meter)
        )
    if is_raised(error, BadInput):
        return checked(Failed("bad_input", message_of(error), blames_service=False))
    if abort.timed_out:
        return Failed("timeout", abort.reason, blames_service=False)
    if is_raised(error, (Aborted, LeaseLost)) or abort.aborted:
        return Interrupted(abort.reason or describe_error(error))
    if is_shutting_down():
        return Interrupted("shutdown")
    if sql.is_passing(error):
        what = "did not answer" if sql.is_away(error) else "undid what it wrote, for another transaction"
        return Failed("storage", f"the database {what}: {describe_error(error)}")
    logger.error("a step failed unexpectedly", exc_info=error)
    return Failed("unexpected", describe_error(error), traceback=traceback_of(error))


def unreadable(second: BaseException) -> str:
    return f"reading it raised {describe_error(second)}"


@contextmanager
def termination_deferred() -> Iterator[None]:
    """In a child of a prefork pool: have a request to end at once wait until this block is left, so that a
    result is stored whole. The pool would raise `SystemExit` wherever the child happens to be."""
    deferred: list[int] = []
    ours = [number for number, handler in process_wide.handlers().items() if handler is SHUTDOWN_HANDLER]
    for number in ours:
        signal.signal(number, lambda received, frame: deferred.append(received))
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, SHUTDOWN_HANDLER)
    for number in deferred:
        signal.raise_signal(number)


SHUTDOWN_HANDLER: Any = getattr(billiard, "_shutdown_cleanup")  # noqa: B009  # its stubs do not have it
