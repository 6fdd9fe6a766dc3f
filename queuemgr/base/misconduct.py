"""What a function of an application must not do to its caller; a result that means it has not run is one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Generator
from functools import partial
from types import CoroutineType, FunctionType, GeneratorType, MethodType
from typing import Any


class Misconduct(Exception):
    """The message follows the name of the function, as `left a transaction open …`."""


_NOT_RUN = (Awaitable, AsyncIterator, Generator, map, filter, FunctionType, MethodType, partial)
"""Not every iterator: a cursor is one, and its statement has run."""


def is_not_run(result: object) -> bool:
    """Whether this result means that the function which returned it has done nothing yet: it is a coroutine
    or a generator, or another function."""
    return issubclass(type(result), _NOT_RUN)


def refuse_not_run(result: object) -> None:
    """For functions whose result is ignored. Raises `Misconduct` if it means that it has not run."""
    if is_not_run(result):
        discard(result)
        name = type(result).__name__
        raise Misconduct(f"returned a {name}, so it has not run: give a plain function that does the work")


def discard(result: Any) -> None:
    """Have Python not warn of what was never awaited."""
    if isinstance(result, CoroutineType | GeneratorType):
        result.close()
