"""Progress bars on standard error, only on a terminal that can move its cursor; never in pipes or logs.

rich is imported where one is drawn: it takes long.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")

UPDATES_A_SECOND = 2


def can_draw(stream: Any) -> bool:
    """Is the stream a terminal that can move its cursor?"""
    if not stream.isatty():
        return False
    from rich.console import Console

    return not Console(file=stream).is_dumb_terminal


def shown() -> bool:
    """Are bars shown, on standard error?"""
    return can_draw(sys.stderr)


def tracked(
    things: Iterable[T],
    what: str,
    total: Callable[[], float | None],
    size: Callable[[T], float] = lambda thing: 1,
) -> Iterator[T]:
    """Yield the same things behind a progress bar. `what`: its label, such as "exporting"; `total`
    (None: unknown) and `size` are in the same unit, and are called only when a bar is shown."""
    if not shown():
        yield from things
        return
    with bar() as progress:
        task = progress.add_task(what, total=total())
        for thing in things:
            yield thing
            progress.advance(task, size(thing))


def bar() -> Progress:
    """A bar on standard error, removed when its block ends."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, refresh_per_second=UPDATES_A_SECOND)


def busy(what: str) -> AbstractContextManager[object]:
    """Show a spinner while the block runs."""
    if not shown():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(what)
