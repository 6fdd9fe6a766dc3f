"""How far a long command is: a bar on standard error where a person looks, nothing that moves elsewhere.

In a pipe, a file or a log, and on a terminal that cannot move its cursor, there is no bar; the command
says at its end what it did, in a line. Standard output is never touched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")

UPDATES_A_SECOND = 2


def can_draw(stream: Any) -> bool:
    """Is there a person at it, on a terminal that can move its cursor?"""
    return bool(stream.isatty()) and not Console(file=stream).is_dumb_terminal


def shown() -> bool:
    """Can a bar be drawn, on standard error?"""
    return can_draw(sys.stderr)


def tracked(
    things: Iterable[T],
    what: str,
    total: Callable[[], float | None],
    size: Callable[[T], float] = lambda thing: 1,
) -> Iterator[T]:
    """The same things, with a bar that says how far it is: `what` as "exporting", `total` (asked only
    for a bar; None: unknown) and `size` in one unit. The bar is gone when they are."""
    if not shown():
        yield from things
        return
    with bar() as progress:
        task = progress.add_task(what, total=total())
        for thing in things:
            yield thing
            progress.advance(task, size(thing))


def bar() -> Progress:
    """A bar on standard error, gone when its block ends."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, refresh_per_second=UPDATES_A_SECOND)


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Say that something is under way whose length nobody knows."""
    if not shown():
        yield
        return
    with Console(stderr=True).status(what):
        yield
