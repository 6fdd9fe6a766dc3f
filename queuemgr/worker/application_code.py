"""Runs a step, the application's code, in a slot; whatever it does, the slot gets an outcome and continues.

A step may raise anything (`sys.exit()` included), return anything, fork, close the database connection or
leave a transaction open, and install signal handlers. What it leaves behind is undone before the next
step runs in its thread.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from billiard import common as billiard

from queuemgr.base import sql
from queuemgr.base.db_connection import discard_connections, open_blocks
from queuemgr.base.errors import Aborted, LeaseLost, StepFailed
from queuemgr.base.redaction import describe_error
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcome_checks import checked
from queuemgr.flows.outcomes import Failed, Interrupted, Result, Skipped

logger = logging.getLogger(__name__)


def outcome_of(run: Callable[[], object], abort: AbortSignal) -> Result:
    """Run a step; returns the outcome it returned, or the one its exception stands for."""
    own, handlers, blocks = os.getpid(), _signal_handlers(), open_blocks()
    try:
        result = _run(run, abort, own)
    finally:
        _restore(handlers)
    if not discard_connections(blocks) or isinstance(result, Failed | Interrupted | Skipped):
        return result
    return Failed(
        "unexpected", "it left a transaction open, whose writes were rolled back: end it in the step"
    )


def _run(run: Callable[[], object], abort: AbortSignal, own: int) -> Result:
    try:
        returned = run()
    except BaseException as error:  # sys.exit() in a step must not take its slot
        _end_if_forked(own, error)
        return as_result(error, abort)
    _end_if_forked(own, None)
    return checked(returned)


def as_result(error: BaseException, abort: AbortSignal) -> Result:
    """The outcome that an exception raised by a step stands for."""
    if isinstance(error, StepFailed):
        return checked(Failed(error.kind, error.message, error.retry_after, limit=error.limit))
    if abort.timed_out:
        return Failed("timeout", abort.reason, blames_service=False)
    if isinstance(error, Aborted | LeaseLost) or abort.aborted:
        return Interrupted(abort.reason or str(error))
    if is_shutting_down():
        return Interrupted("shutdown")
    if sql.is_passing(error):
        what = "did not answer" if sql.is_away(error) else "undid what it wrote, for another transaction"
        return Failed("storage", f"the database {what}: {describe_error(error)}")
    logger.error("a step failed unexpectedly", exc_info=error)
    return Failed("unexpected", describe_error(error))


def is_shutting_down() -> bool:
    """Whether this is a child of a prefork pool whose parent has asked it to end: what raised in it since is
    not the application's."""
    return bool(billiard.terminate_handler_fired())  # type: ignore[attr-defined]  # newer than its stubs


def _end_if_forked(own: int, error: BaseException | None) -> None:
    """End this process if the step forked it: it is a copy of the worker, and must store or send nothing."""
    if os.getpid() == own:
        return
    code = error.code if isinstance(error, SystemExit) else error and 1
    os._exit(code & 0xFF if isinstance(code, int) else bool(code))


@contextmanager
def termination_deferred() -> Iterator[None]:
    """In a child of a prefork pool: have a request to end at once wait until this block is left, so that a
    result is stored whole. The pool would raise `SystemExit` wherever the child happens to be."""
    deferred: list[int] = []
    ours = [number for number, handler in _signal_handlers().items() if handler is SHUTDOWN_HANDLER]
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

SignalHandlers = dict[int, Any]

GUARDED = (
    signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1,
    signal.SIGUSR2, signal.SIGALRM,
)  # fmt: skip
"""Signals by which a worker is stopped, restarted and told of its children."""


def _signal_handlers() -> SignalHandlers:
    """Those in force; only the main thread may change any, so in others there is nothing to restore."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in GUARDED}


def _restore(handlers: SignalHandlers) -> None:
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler and handler is not None:
            with suppress(OSError, ValueError):
                signal.signal(number, handler)
    if handlers:
        signal.setitimer(signal.ITIMER_REAL, 0)
