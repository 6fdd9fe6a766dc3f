"""Reading trace files: what ran when, and whether a promise about it was ever broken.

A probe writes a line when it starts and one when it ends; times are one machine's monotonic clock.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Self

NEVER = 2**63
"""Where a run that has no end line ends."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a probe: from its start line to its end line, in nanoseconds."""

    key: str
    phase: str
    priority: str
    limit_key: str
    worker: str
    start: int
    end: int


@dataclass(frozen=True)
class Trace:
    """The runs in a trace file, in the order they started."""

    runs: tuple[Run, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file; raises `ValueError` on an end that has no start."""
        return cls.of(json.loads(line) for line in path.read_text().splitlines())

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, object]]) -> Self:
        return cls(tuple(sorted(_runs(lines), key=lambda run: run.start)))

    def where(self, **values: str) -> Self:
        """Only the runs with these values, such as `priority="low"`."""
        return type(self)(tuple(r for r in self.runs if all(getattr(r, k) == v for k, v in values.items())))

    def until(self, deaths: Mapping[str, int]) -> Self:
        """With the runs a worker's death cut short ended by it; `deaths` is by worker, in ns."""
        return type(self)(tuple(_cut(run, deaths) for run in self.runs))

    def most_at_once(self) -> int:
        """The largest number of runs under way at one moment."""
        return max((running for _, running in self._steps()), default=0)

    def share_of_time_at(self, count: int) -> float:
        """Which part of the time, from reaching `count` until the last start, so many ran."""
        steps = list(self._steps())
        reached = next((at for at, running in steps if running == count), None)
        last = self.runs[-1].start if self.runs else 0
        if reached is None or last <= reached:
            return 0.0
        moments = pairwise(steps)
        full = sum(
            min(later, last) - at
            for (at, running), (later, _) in moments
            if running == count and reached <= at < last
        )
        return full / (last - reached)

    def passed(self, most: int) -> list[Run]:
        """The runs whose start made more than `most` run at once."""
        running, guilty = 0, []
        for _, change, run in self._events():
            running += change
            if change > 0 and running > most:
                guilty.append(run)
        return guilty

    def unended(self) -> list[Run]:
        """The runs without an end line."""
        return [run for run in self.runs if run.end == NEVER]

    def started_again(self) -> list[str]:
        """The keys that started more than once."""
        return sorted(key for key, n in Counter(run.key for run in self.runs).items() if n > 1)

    def overlapping(self) -> list[str]:
        """The keys of which two runs were under way at one moment."""
        by_key: defaultdict[str, list[Run]] = defaultdict(list)
        for run in self.runs:
            by_key[run.key].append(run)
        return sorted(key for key, runs in by_key.items() if type(self)(tuple(runs)).passed(1))

    def _events(self) -> list[tuple[int, int, Run]]:
        """Starts and ends in order; at the same moment an end comes first."""
        starts = [(run.start, 1, run) for run in self.runs]
        ends = [(run.end, -1, run) for run in self.runs]
        return sorted([*starts, *ends], key=lambda event: event[:2])

    def _steps(self) -> Iterator[tuple[int, int]]:
        """How many run from each moment on."""
        running = 0
        for at, change, _ in self._events():
            running += change
            yield at, running


def _runs(lines: Iterable[Mapping[str, object]]) -> Iterator[Run]:
    """Match each end with the start of the same key on the same worker."""
    begun: dict[tuple[str, str], Mapping[str, object]] = {}
    for line in lines:
        who = str(line["key"]), str(line["worker"])
        if line["event"] == "end":
            if who not in begun:
                raise ValueError(f"an end without a start: {line}")
            yield _run(begun.pop(who), int(str(line["monotonic_ns"])))
            continue
        if who in begun:
            yield _run(begun[who], NEVER)
        begun[who] = line
    for line in begun.values():
        yield _run(line, NEVER)


def _run(line: Mapping[str, object], end: int) -> Run:
    fields = {name: str(line[name]) for name in ("key", "phase", "priority", "limit_key", "worker")}
    return Run(**fields, start=int(str(line["monotonic_ns"])), end=end)


def _cut(run: Run, deaths: Mapping[str, int]) -> Run:
    worker = next((name for name in deaths if run.worker.startswith(name)), None)
    if worker is None or run.end != NEVER:
        return run
    return replace(run, end=deaths[worker])
