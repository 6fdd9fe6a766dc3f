"""What hostile code raises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from queuemgr import StepFailed


class Own(BaseException):
    """An exception that no `except Exception` catches."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Huge(Exception):
    pass


class Surrogate(Exception):
    pass


class Cycle(Exception):
    pass


class Unpicklable(Exception):
    """Pickled well, and never unpickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)
        self.two = two


class NoKind(StepFailed):
    def __init__(self) -> None:
        """Without that of its base, which sets the kind."""


class ExitsWhenRead(Exception):
    @property
    def sqlstate(self) -> NoReturn:
        raise SystemExit(2)


def throw(error: BaseException) -> NoReturn:
    raise error


Classless = type(
    "Classless", (Exception,), {"__class__": property(lambda self: throw(ValueError("of no class")))}
)


def _cycle() -> NoReturn:
    error, cause = Cycle("a cause of its own cause"), Cycle("the other")
    error.__cause__, cause.__cause__ = cause, error
    raise error


def _recurse() -> Any:
    return _recurse()


def integrity_error() -> NoReturn:
    from django.db import IntegrityError

    raise IntegrityError("the code's own")


MISDEEDS: Mapping[str, Callable[[], Any]] = {
    "SystemExit": lambda: throw(SystemExit(2)),
    "KeyboardInterrupt": lambda: throw(KeyboardInterrupt()),
    "CancelledError": lambda: throw(asyncio.CancelledError()),
    "GeneratorExit": lambda: throw(GeneratorExit()),
    "Own": lambda: throw(Own("from BaseException")),
    "Unspeakable": lambda: throw(Unspeakable()),
    "Nameless": lambda: throw(type("", (Exception,), {})("of a class without a name")),
    "Huge": lambda: throw(Huge("x" * 5_000_000)),
    "Surrogate": lambda: throw(Surrogate("half \ud83d of it, and a \x00")),
    "Group": lambda: throw(BaseExceptionGroup("a Group", [KeyboardInterrupt(), ValueError("inside")])),
    "Cycle": _cycle,
    "RecursionError": _recurse,
    "MemoryError": lambda: throw(MemoryError()),
    "StopIteration": lambda: throw(StopIteration()),
    "Unpicklable": lambda: throw(Unpicklable("one", "two")),
    "IntegrityError": integrity_error,
    "NoKind": lambda: throw(NoKind()),
    "ExitsWhenRead": lambda: throw(ExitsWhenRead()),
    "Classless": lambda: throw(Classless()),
}
