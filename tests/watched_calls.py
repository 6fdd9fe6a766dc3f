"""Which functions that read text from outside are called, and where: on an event loop, in a transaction."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, NamedTuple

from tests.unit.untrusted_text.calls import functions_to_test


class Seen(NamedTuple):
    """The names (`module:function`) of those that were called where they should not be, and of all."""

    wrongly: set[str]
    all: set[str]


@contextmanager
def watched_calls(is_wrong: Callable[[], object]) -> Iterator[Seen]:
    """The calls of this thread and of threads that begin from now on; `is_wrong` is asked at each."""
    names, seen = dict(codes()), Seen(set(), set())

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and (name := names.get(frame.f_code)) is not None:
            seen.all.add(name)
            if is_wrong():
                seen.wrongly.add(name)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def codes() -> Iterator[tuple[CodeType, str]]:
    for function in functions_to_test():
        code = getattr(inspect.unwrap(function.load()), "__code__", None)
        if code is not None:
            yield code, function.id
