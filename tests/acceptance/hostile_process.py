"""What the code of a hostile application does to the whole process it runs in."""

from __future__ import annotations

import builtins
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

STRAY_SIGNALS = (
    signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGUSR2, signal.SIGIO, signal.SIGPIPE,
    signal.SIGRTMIN, signal.SIGRTMAX,
)  # fmt: skip


def _send_itself(number: int) -> Callable[[], object]:
    return lambda: os.kill(os.getpid(), number)


def _timer(timer: int) -> Callable[[], object]:
    """It goes off when the step may be over."""
    return lambda: signal.setitimer(timer, 0.002)


def _lower_recursion_limit() -> None:
    depth, frame = 0, sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        depth += 1
    sys.setrecursionlimit(depth + 15)


def _open_few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


class Raising(logging.Filter):
    """A filter that raises for some records, and is gone then, so that the log says what else happens."""

    left = 5

    def filter(self, record: logging.LogRecord) -> bool:
        self.left -= 1
        if self.left < 0:
            return True
        raise SystemExit("a filter exits") if self.left % 2 else RuntimeError("a filter broke")


class RaisingHandler(Raising, logging.Handler):  # type: ignore[misc]
    def __init__(self) -> None:
        logging.Handler.__init__(self)

    def handle(self, record: logging.LogRecord) -> bool:
        return self.filter(record)


def _break_filters() -> None:
    for handler in logging.getLogger().handlers:
        handler.addFilter(Raising())


CHANGES_ITS_PROCESS: Mapping[str, Callable[[], object]] = {
    "alarm": _timer(signal.ITIMER_REAL),
    "virtual-alarm": _timer(signal.ITIMER_VIRTUAL),
    "profile-alarm": _timer(signal.ITIMER_PROF),
    "recursion-limit": _lower_recursion_limit,
    "few-files": _open_few_files,
    "blocks-signals": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()),
    **{f"signal-{int(number)}": _send_itself(number) for number in STRAY_SIGNALS},
}
"""What it may do to its whole process, and be done: it is put back, or survived."""


def _break_builtins() -> None:
    def broken(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("a builtin of another kind")

    for name in ("len", "isinstance", "getattr", "super", "print"):
        setattr(builtins, name, broken)


def _break_logging_and_fail(break_it: Callable[[], object]) -> Callable[[], NoReturn]:
    def act() -> NoReturn:
        break_it()
        raise ValueError("what it logs cannot be logged")

    return act


BREAKS_LOGGING: Mapping[str, Callable[[], object]] = {
    "filter-raises": _break_logging_and_fail(_break_filters),
    "handler-raises": _break_logging_and_fail(lambda: logging.getLogger().addHandler(RaisingHandler())),
}
"""It fails, which is recorded; what is logged of it raises."""


DAMAGES: Mapping[str, Callable[[], object]] = {
    "no-files": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)),
    "broken-builtins": _break_builtins,
}
"""What cannot be put back. Each does it once."""
