"""The work that the step of this thread does, for code that is not called with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queuemgr.worker.work import Work

_work: ContextVar[Work | None] = ContextVar("work", default=None)


def current_work() -> Work:
    """The work of the step that called this: its abort signal, its key, what records its requests.

    Raises `RuntimeError` outside of a step, and in threads that a step started.
    """
    if (work := _work.get()) is None:
        raise RuntimeError("current_work() is for the code of a step, in the thread that the step runs in")
    return work


def is_in_step() -> bool:
    """Whether this is the thread that a step runs in."""
    return _work.get() is not None


@contextmanager
def doing(work: Work) -> Iterator[None]:
    """Around a step: `current_work()` returns its work."""
    token = _work.set(work)
    try:
        yield
    finally:
        _work.reset(token)
