"""The one way in which the queue calls a function of an application: a rule, a store, what a store has run
after its commit; a callback by `began`. Steps are called by `worker/application_code`, which undoes more.

Whatever the function does, it ends in the process that called it and leaves transactions as they were; what
it returns is looked at in the same guard, since reading that may be code of the application, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from inspect import iscoroutine
from typing import Any, Protocol, TypeVar

from queuemgr.base.db_connection import Held, end_what_was_left, held
from queuemgr.base.misconduct import Misconduct, refuse_not_run
from queuemgr.base.raised import is_raised

Taken = TypeVar("Taken")


class End(Protocol):
    """Undoes what was left behind; returns it as a sentence without a subject, empty if nothing was. `error`
    is what was raised."""

    def __call__(self, error: BaseException | None = None) -> str: ...


def call(function: Callable[..., Any], *arguments: Any, take: Callable[[Any], Taken]) -> Taken:
    """What `take` makes of the function's result.

    Raises what either raises, and `Misconduct` for a function that was not run, or that left a transaction
    open, ended that of its caller, or left it fit only to be rolled back.
    """
    end = began()
    try:
        result = function(*arguments)
        if iscoroutine(result):
            refuse_not_run(result)
        taken = take(result)
    except BaseException as error:
        end(error)
        raise
    if left := end():
        raise Misconduct(left)
    return taken


def began() -> End:
    """To be called before a function of an application; what it returns, after it."""
    return partial(_end, os.getpid(), held())


def _end(own: int, before: Held, error: BaseException | None = None) -> str:
    end_if_forked(own, error)
    return end_what_was_left(before)


def end_if_forked(own: int, error: BaseException | None) -> None:
    """End this process unless it is `own`: the function forked it, and it is a copy that must store or send
    nothing."""
    if os.getpid() == own:
        return
    os._exit(0 if error is None else _exit_code(error))


def _exit_code(error: BaseException) -> int:
    """That of a program which this ended, as Python's own."""
    if not is_raised(error, SystemExit):
        return 1
    try:
        return error.code & 0xFF if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # a class of the application's
        return 1
