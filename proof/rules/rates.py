"""Rates, measured where work begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from proof.records import Attempt, Backlog, History, Rate
from proof.rules.violation import Violation

RATE_SECONDS = 0.05
"""Seconds by which a start may seem too early: one clock, read in two places."""

SHARE_USED = 0.98
"""How much of a rate is used at least while work waits and slots are idle."""

STARTING_SECONDS = 1.0
"""Seconds from the acknowledgement of work in an idle fleet to its first start, which use nothing."""

SHORTEST_STRETCH = 10.0
"""Seconds that must remain to be judged."""


def rates_are_kept(history: History) -> Iterator[Violation]:
    """Starts under a limit conform to its rate (GCRA), measured where work begins."""
    for rate in history.rates:
        starts = sorted(a.started for a in history.attempts if rate.limit in a.names)
        for early in too_early(starts, rate):
            yield Violation("rate", f"a start under {rate.limit} came {early:.3f} s too early")


def too_early(starts: Iterable[float], rate: Rate, tolerance: float = RATE_SECONDS) -> list[float]:
    """By how many seconds each start that does not conform was too early; the starts are in order.

    At most `burst + t * starts / period` starts conform in any span of t seconds.
    """
    interval = rate.period / rate.starts
    clock, early = float("-inf"), []
    for start in starts:
        allowed = clock - (rate.burst - 1) * interval
        if start + tolerance < allowed:
            early.append(allowed - start)
        clock = max(clock, start) + interval
    return early


class Use(NamedTuple):
    """How many starts there were under a limit in a stretch in which work waited, and how many its rate
    allowed."""

    limit: str
    starts: int
    allowed: float

    @property
    def share(self) -> float:
        return min(1.0, self.starts / self.allowed)

    @property
    def is_enough(self) -> bool:
        return self.starts >= int(SHARE_USED * self.allowed)


def rates_are_used(history: History) -> Iterator[Violation]:
    """While work waits under a rate that nothing else stops, and slots are idle, at least 0.98 of it is used,
    though ticks come once a minute. Judged after the faults, from a second after the enqueue on; if it is
    less, without the time in which the machine had no processor to spare."""
    for use in uses(history):
        if not use.is_enough:
            text = f"{use.limit} had {use.starts} starts where its rate allowed {use.allowed:.1f}"
            yield Violation("rate used", f"{text} and work waited all the time")


def uses(history: History) -> list[Use]:
    """The use of the rate of each backlog that lasted long enough."""
    found = (_use(backlog, history) for backlog in history.backlogs)
    return [use for use in found if use is not None]


def _use(backlog: Backlog, history: History) -> Use | None:
    """Work waits from its acknowledgement until the last of it starts, which it may never do. Time in which
    starts were held up counts if the rate was used in spite of it."""
    rate = next(rate for rate in history.rates if rate.limit == backlog.limit)
    mine = sorted(_first_starts(backlog, history.attempts))
    until = mine[-1] if len(mine) == len(backlog.keys) else backlog.until
    starts = sum(backlog.since < start <= until for start in mine)
    whole = until - backlog.since - STARTING_SECONDS
    held_up = _without_a_slot(backlog, until, history.attempts) + _overloaded(backlog, until, history)
    judged = [
        Use(rate.limit, starts, seconds * rate.starts / rate.period)
        for seconds in (whole, whole - held_up)
        if seconds >= SHORTEST_STRETCH
    ]
    return next((use for use in judged if use.is_enough), judged[1] if len(judged) > 1 else None)


def _first_starts(backlog: Backlog, attempts: Iterable[Attempt]) -> Iterable[float]:
    keys, first = set(backlog.keys), dict[str, float]()
    for attempt in attempts:
        if attempt.key in keys:
            first[attempt.key] = min(attempt.started, first.get(attempt.key, attempt.started))
    return first.values()


def _without_a_slot(backlog: Backlog, until: float, attempts: Sequence[Attempt]) -> float:
    """Seconds in which every slot ran something. One that waits for its start is idle."""
    changes = [(at, by) for a in attempts for at, by in ((a.started, 1), (a.ended, -1))]
    seconds, running, since = 0.0, 0, backlog.since
    for at, by in sorted(changes):
        upto = min(max(at, backlog.since), until)
        seconds += (upto - since) * (running >= backlog.slots)
        since, running = upto, running + by
    return seconds


def _overloaded(backlog: Backlog, until: float, history: History) -> float:
    spans = ((max(began, backlog.since), min(ended, until)) for began, ended in history.overloads)
    return sum(max(0.0, ended - began) for began, ended in spans)
