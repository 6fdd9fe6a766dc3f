"""Waiting until no work is left: progress bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from queuemgr.cli.exit_codes import FINE, LEFT, SOME_FAILED
from queuemgr.cli.output import rounds
from queuemgr.cli.terminal import console
from queuemgr.flows.flow import all_phases
from queuemgr.models import BulkAction
from queuemgr.reporting import stats
from queuemgr.reporting.explain import Stopped
from queuemgr.reporting.stats import Counts
from queuemgr.reporting.stuck import stuck

POLL_SECONDS = 0.3


@dataclass(frozen=True)
class Drained:
    """How a run ended: the counts, and what blocks the remaining work."""

    counts: Counts
    stopped: Sequence[Stopped] = ()

    @property
    def exit_code(self) -> int:
        if self.stopped:
            return LEFT
        return SOME_FAILED if self.counts.failed else FINE


def drain(out: Any, phases: Sequence[str] = (), check: Callable[[], None] = lambda: None) -> Drained:
    """Show the work of these phases (none: all) until it has ended or is blocked, and no bulk action
    is running that may add to it. `check` is called at each poll; what it raises ends the wait."""
    pace = rounds(POLL_SECONDS)
    with _display(out) as show:
        while True:
            next(pace)
            bulk = list(BulkAction.objects.running())  # first, so that what they add is counted
            counts = stats.counts()
            unfinished = counts.unfinished(phases)
            show(counts, () if unfinished else bulk)
            if not unfinished and not bulk:
                return Drained(counts)
            if stopped := stuck(phases):
                return Drained(counts, stopped)
            check()


Show = Callable[[Counts, Sequence[BulkAction]], None]
"""Shows the counts, and the bulk actions if they are all that is waited for."""


@contextmanager
def _display(out: Any) -> Iterator[Show]:
    if not out.isatty():
        lines = _Lines(out)
        yield lines
        lines.last()
        return
    columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(),
               TextColumn("{task.fields[note]}"), TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=console(out), transient=False) as progress:
        yield _Bars(progress)


class _Lines:
    """A line per change, at most one a second."""

    def __init__(self, out: Any) -> None:
        self._out, self._next = out, 0.0
        self._current = self._written = ""

    def __call__(self, counts: Counts, awaited: Sequence[BulkAction]) -> None:
        words = (f"{status} {count}" for status, count in sorted(counts.by_status.items()))
        self._current = "  ".join([*words, *_awaited_in_words(awaited)]) or "nothing to do"
        if time.monotonic() >= self._next:
            self.last()

    def last(self) -> None:
        """Write the current counts if they are not written yet; flushed, for readers of a pipe."""
        if self._current != self._written:
            self._out.write(self._current)
            self._out.flush()
            self._written, self._next = self._current, time.monotonic() + 1


class _Bars:
    """A bar per phase: how many executions have passed it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bars = {name: progress.add_task(name, total=0, note="") for name in all_phases()}
        self._printed: list[str] = []

    def __call__(self, counts: Counts, awaited: Sequence[BulkAction]) -> None:
        words = _awaited_in_words(awaited)
        if words and words != self._printed:
            self._progress.console.print(*words)
        self._printed = words
        total = counts.total - counts.failed
        for name, bar in self._bars.items():
            running = counts.by_phase[name, "running"]
            notes = [f"{running} running"] if running else []
            notes += [f"{counts.failed} failed"] if counts.failed else []
            self._progress.update(bar, total=total, completed=counts.beyond(name), note=", ".join(notes))


def _awaited_in_words(awaited: Sequence[BulkAction]) -> list[str]:
    """Why a run does not end though no work is left; empty when it may end."""
    named = ", ".join(map(str, awaited))
    return [f"waiting for bulk action {named}, which may add work"] if named else []
