"""What each item of a drawn run will do, and what a plain loop, one item after another, makes of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import strategies as st

from queuemgr.steptools.lanes import Lane

TRY = st.tuples(st.sampled_from(["ok", "again", "again", "fatal"]), st.sampled_from([0, 0, 1, 2, 5]))
"""How a try ends, and how many seconds it takes (0: it never waits)."""


class Again(Exception):
    """Worth another try."""


class Fatal(Exception):
    """Not worth one."""


class CallbackBroke(Exception):
    """Raised by a callback."""


@dataclass(frozen=True)
class Script:
    """One item: its tries (the last repeats), and whether its callbacks raise."""

    tries: tuple[tuple[str, int], ...]
    breaks_on_result: bool = False
    breaks_on_error: bool = False


@dataclass(frozen=True)
class Case:
    """One run: its items, bounds, and the speed of source, retries and reader, in seconds."""

    scripts: tuple[Script, ...]
    lane: Lane
    window: int
    retries: int
    backoff: int
    source_wait: int
    reader_waits: tuple[int, ...]


SCRIPT = st.builds(
    Script, st.lists(TRY, min_size=1, max_size=4).map(tuple), *[st.sampled_from([False] * 5 + [True])] * 2
)

CASE = st.builds(
    Case,
    scripts=st.lists(SCRIPT, max_size=12).map(tuple),
    lane=st.builds(Lane, st.just("drawn"), st.integers(1, 5), st.integers(1, 9)),
    window=st.integers(1, 8),
    retries=st.integers(0, 3),
    backoff=st.sampled_from([0, 0, 1, 7]),
    source_wait=st.sampled_from([0, 0, 0, 1, 3]),
    reader_waits=st.lists(st.sampled_from([0, 0, 1, 4]), min_size=1, max_size=4).map(tuple),
)


def one_after_another(case: Case, *, callbacks: bool = False) -> list[tuple[int, str]]:
    """The oracle: for each item, how often it is tried and what it ends with."""
    return [_ending(script, case.retries, callbacks) for script in case.scripts]


def _ending(script: Script, retries: int, callbacks: bool) -> tuple[int, str]:
    for attempt in range(1, retries + 2):
        how, _ = script.tries[min(attempt, len(script.tries)) - 1]
        if how != "again":
            break
    broke = callbacks and how == "ok" and script.breaks_on_result
    return attempt, "CallbackBroke" if broke else how


@dataclass
class Watch:
    """The worker and the source of a run, and what was seen of them."""

    case: Case
    handed: int | None = None
    running: int = 0
    most_running: int = 0
    taken: int = 0
    ended: int = 0
    tries: dict[int, int] = field(default_factory=dict)
    cancelled: list[int] = field(default_factory=list)

    async def source(self):
        """The items, at the source's speed; each is checked against the bounds as it is taken."""
        for seq in range(len(self.case.scripts)):
            if self.case.source_wait:
                await asyncio.sleep(self.case.source_wait)
            self._inside_window(seq)
            self.taken += 1
            assert self.taken - self.ended <= self.case.lane.max_pending
            yield seq

    async def worker(self, seq: int) -> str:
        self._inside_window(seq)
        self.tries[seq] = self.tries.get(seq, 0) + 1
        script = self.case.scripts[seq]
        how, seconds = script.tries[min(self.tries[seq], len(script.tries)) - 1]
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if seconds:
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled.append(seq)
            raise
        finally:
            self.running -= 1
        return self._end(seq, how)

    def _end(self, seq: int, how: str) -> str:
        final = how != "again" or self.tries[seq] > self.case.retries
        self.ended += final
        if how == "ok":
            return f"result {seq}"
        raise (Again if how == "again" else Fatal)(seq)

    def _inside_window(self, seq: int) -> None:
        if self.handed is not None:
            assert seq < self.handed + self.case.window

    def backoff(self, _error: Exception, _attempt: int) -> float:
        return float(self.case.backoff)


def retryable(error: Exception) -> bool:
    return isinstance(error, Again)
