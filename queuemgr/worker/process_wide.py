"""What a step or a callback of a flow may change for its whole process, and putting it back: signal handlers
and timers, signals that are blocked, Python's recursion limit, limits of the system.

A process that cannot be put right, such as one that can open no file any more, is damaged: it ends itself
with exit code 70 once the outcome of the step is stored, and its supervisor, or the parent of its pool,
starts another.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from queuemgr.base import process_state

logger = logging.getLogger(__name__)

GUARDED = (
    signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1,
    signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGPIPE,
)  # fmt: skip
"""Signals by which a worker is stopped, restarted and informed of its children, and those of timers."""

TIMERS = {
    signal.ITIMER_REAL: signal.SIGALRM,
    signal.ITIMER_VIRTUAL: signal.SIGVTALRM,
    signal.ITIMER_PROF: signal.SIGPROF,
}

STRAY = (
    signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGUSR1, signal.SIGUSR2, signal.SIGIO,
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
)  # fmt: skip
"""Signals that would end a process that has no handler for them, and that mean nothing to a worker."""

LIMITS = (
    resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_AS, resource.RLIMIT_DATA,
    resource.RLIMIT_STACK, resource.RLIMIT_FSIZE,
)  # fmt: skip

SignalHandlers = Mapping[int, Any]


class Before(NamedTuple):
    """What a thread had before a step; only the main thread may change handlers, so others have none."""

    handlers: SignalHandlers
    blocked: frozenset[int]


class _AtStart(NamedTuple):
    recursion_limit: int
    soft_limits: Mapping[int, int]


_at_start: _AtStart | None = None


def _reset() -> None:
    global _at_start
    _at_start = None


process_state.register(_reset)


def remember_start() -> None:
    """Called when a process starts: what steps lower later is raised to this again. A forked child keeps what
    its parent started with."""
    global _at_start
    _at_start = _at_start or _AtStart(
        sys.getrecursionlimit(), {which: resource.getrlimit(which)[0] for which in LIMITS}
    )


def ignore_stray_signals() -> None:
    """Have this process survive signals that nobody handles; only in the main thread, and elsewhere nothing.

    A step in a thread may set an alarm; the signal comes when it may long be over, and to the whole process.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in STRAY:
        with suppress(OSError, ValueError):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _ignore)


def _ignore(number: int, frame: object) -> None:
    logger.warning("signal %d came, for which nobody waits: it is ignored", number)


def handlers() -> SignalHandlers:
    """Those in force, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in GUARDED}


def before_step() -> Before:
    return Before(handlers(), frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, ())))


def put_back(before: Before) -> None:
    """Undo what a step did; called in its thread."""
    raise_limits()
    for number, handler in before.handlers.items():
        if signal.getsignal(number) is not handler and handler is not None:
            with suppress(OSError, ValueError):
                signal.signal(number, handler)
    _stop_timers()
    signal.pthread_sigmask(signal.SIG_SETMASK, before.blocked)


def kept() -> Callable[[], None]:
    """What puts back as it is now; called in the same thread."""
    return partial(put_back, before_step())


def raise_limits() -> None:
    """Raise what is lower than when this process started; cheap, and safe to call in any state."""
    if _at_start is None:
        return
    if sys.getrecursionlimit() < _at_start.recursion_limit:
        sys.setrecursionlimit(_at_start.recursion_limit)
    for which, at_start in _at_start.soft_limits.items():
        soft, hard = resource.getrlimit(which)
        if soft != at_start and _is_lower(soft, at_start):
            with suppress(OSError, ValueError):
                resource.setrlimit(which, (hard if _is_lower(hard, at_start) else at_start, hard))


def _is_lower(limit: int, other: int) -> bool:
    if limit == resource.RLIM_INFINITY:
        return False
    return other == resource.RLIM_INFINITY or limit < other


def _stop_timers() -> None:
    """Stop those that a step left running; one whose signal has a handler of somebody else's is theirs."""
    for timer, number in TIMERS.items():
        handler = signal.getsignal(number)
        if signal.getitimer(timer)[0] and (handler is _ignore or handler is signal.SIG_DFL):
            signal.setitimer(timer, 0)


def damage() -> str:
    """What keeps this process from working, after `raise_limits`; empty if nothing does."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return f"it can open no file ({error.strerror})"
    return ""
