"""What `@queued` may decorate: a plain function of a module, which a worker finds again by its name."""

from __future__ import annotations

import inspect
from typing import Any

from celery import Task

from queuemgr.base.errors import ConfigurationError, UnknownFlow
from queuemgr.base.safe_text import excerpt
from queuemgr.flows.flow import get_flow
from queuemgr.tasks.definition import definition_of


def check(function: Any, name: str) -> None:
    """Raises `ConfigurationError` for what could be declared and then never run as meant. `name` is the one
    of the task, if it has one of its own."""
    if not callable(function) or isinstance(function, Task):
        raise ConfigurationError(
            f"queued() decorates a function, not {excerpt(function)}; write its options by name: "
            "@queued(limits={…}). A Celery task has base=QueuedTask instead"
        )
    full = f"{function.__module__}.{function.__qualname__}"
    if function.__name__ == "<lambda>":
        raise ConfigurationError(f"{full}: a worker finds a task by its name: write it with def, not lambda")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"{full} is a generator: calling it runs nothing. Return a list, or enqueue a call for each item"
        )
    if _is_method(function):
        raise ConfigurationError(
            f"{full} is a method: a worker has no object to call it of. Write a function that finds it "
            "by what it is given, such as a primary key"
        )
    _refuse_another_of_this_name(function, name or full)


def _is_method(function: Any) -> bool:
    around, dot, _ = function.__qualname__.rpartition(".")
    return (
        bool(dot)
        and not around.endswith("<locals>")
        and next(iter(inspect.signature(function).parameters), "") in ("self", "cls")
    )


def _refuse_another_of_this_name(function: Any, name: str) -> None:
    """The same function again is a module that is imported again."""
    try:
        other = definition_of(get_flow(name))
    except UnknownFlow:
        return
    if other is None or other.arguments.is_of(function):
        return
    raise ConfigurationError(
        f"two tasks are called {name!r}, {other.arguments.where} and {function.__module__}."
        f"{function.__qualname__}: give one of them another name=…"
    )
