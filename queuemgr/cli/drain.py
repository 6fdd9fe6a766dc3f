"""Following a run until there is no more to do: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from queuemgr.cli.output import console
from queuemgr.flows.flow import all_phases
from queuemgr.models import Attempt, BulkAction, Outcome
from queuemgr.reporting import stats as standing
from queuemgr.reporting.explain import Stopped

ALL_DONE, SOME_FAILED, COULD_NOT_RUN, STOPPED_SHORT = 0, 2, 3, 4
"""Exit codes of a drained run."""

LOOK_SECONDS = 0.3

LOOK_SHARE = 5
"""Seconds between looks per second a look takes: a large catalogue is counted less often."""


@dataclass(frozen=True)
class Drained:
    """How a run ended: the counts, and what stops the work that is left."""

    standing: standing.Counts
    stopped: Sequence[Stopped] = ()

    @property
    def exit_code(self) -> int:
        if self.stopped:
            return STOPPED_SHORT
        return SOME_FAILED if self.standing.failed else ALL_DONE


def drain(
    out: Any, phases: Sequence[str] = (), check: Callable[[], None] = lambda: None
) -> Drained:
    """Follow the work of these phases (none: all) until it is done or can go no further, and no bulk
    action is under way that may bring more."""
    with _shown(out) as show:
        while True:
            began = time.monotonic()
            bulk = list(
                BulkAction.objects.running()
            )  # looked for first: what one brings is then seen
            now = standing.counts()
            unfinished = now.unfinished(phases)
            show(now, () if unfinished else bulk)
            if not unfinished and not bulk:
                return Drained(now)
            stopped = standing.stuck(phases)
            if stopped:
                return Drained(now, stopped)
            check()
            time.sleep(max(LOOK_SECONDS, LOOK_SHARE * (time.monotonic() - began)))


Show = Callable[[standing.Counts, Sequence[BulkAction]], None]
"""Tells how the work stands, and which bulk actions are all that is waited for."""


@contextmanager
def _shown(out: Any) -> Iterator[Show]:
    """A function that shows how the work stands, each time better than before."""
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
    """A line whenever the picture changed, at most one a second."""

    def __init__(self, out: Any) -> None:
        self._out, self._next = out, 0.0
        self._seen = self._written = ""

    def __call__(self, now: standing.Counts, awaited: Sequence[BulkAction]) -> None:
        counts = (f"{status} {count}" for status, count in sorted(now.by_status.items()))
        self._seen = "  ".join([*counts, *_waits_for(awaited)]) or "nothing to do"
        if time.monotonic() >= self._next:
            self.last()

    def last(self) -> None:
        """Write how it stood when last seen; at once, for whoever reads along in a pipe."""
        if self._seen != self._written:
            self._out.write(self._seen)
            self._out.flush()
            self._written, self._next = self._seen, time.monotonic() + 1


class _Bars:
    """A bar per phase: how many executions have left it behind."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bars: dict[str, TaskID] = {
            name: progress.add_task(name, total=0, note="") for name in all_phases()
        }
        self._said: list[str] = []

    def __call__(self, now: standing.Counts, awaited: Sequence[BulkAction]) -> None:
        said = _waits_for(awaited)
        if said and said != self._said:
            self._progress.console.print(*said)
        self._said = said
        for name, bar in self._bars.items():
            running = now.by_phase[name, "running"]
            notes = [f"{running} running"] if running else []
            notes += [f"{now.failed} failed"] if now.failed else []
            self._progress.update(
                bar, total=now.total - now.failed, completed=now.beyond(name), note=", ".join(notes)
            )


def _waits_for(awaited: Sequence[BulkAction]) -> list[str]:
    """In words, why a run does not end though nothing is left to do; empty when it may."""
    named = ", ".join(map(str, awaited))
    return [f"waiting for what bulk action {named} may bring"] if named else []


def summary(since: datetime) -> dict[str, int]:
    """Steps done per phase since a moment, attempts that had to be resumed, and errors."""
    attempts = Attempt.objects.filter(ended_at__gte=since)
    counts = {
        phase: attempts.filter(phase=phase, outcome=Outcome.DONE).count() for phase in all_phases()
    }
    again = (Outcome.RETRIED, Outcome.LOST, Outcome.INTERRUPTED, Outcome.SNOOZED)
    counts["resumed"] = attempts.filter(outcome__in=again).count()
    counts["errors"] = attempts.filter(outcome__in=(Outcome.FAILED, Outcome.RETRIED)).count()
    return counts
