"""`python -m bench.estimates`: how far estimates are from what then happens, over simulated loads.

Loads are put through the scheduler's own decision (a replay, as of `queue replay`), which says when each
piece started and ended. At moments of each run everything is estimated from what was known by then, by the
formulas of pages and commands, and compared: the error is |predicted - actual|, relative to how far ahead
the actual moment was. It needs no database and no fleet.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import median, quantiles
from typing import NamedTuple

from bench import command_line

START = datetime(2026, 5, 4, 12, tzinfo=UTC)
HOUR, TEN_MINUTES = 3_600.0, 600.0
NEAREST = 60.0
"""Seconds: what is nearer is not estimated for anybody."""

GAP = 0.001
"""Seconds between pieces that come together: what is due in the same instant starts in no order."""

MOMENTS = 24
"""At which each run is looked at."""


class Piece(NamedTuple):
    """Seconds: due, started, ended; `rank` of its priority."""

    due: float
    started: float
    ended: float
    rank: int


class Load(NamedTuple):
    """`slots`, a rate if there is one, and how pieces arrive: (due, run time, priority)."""

    slots: int
    pieces: Callable[[Random], Iterator[tuple[float, float, int]]]
    rate: str = ""


def backlog(dice: Random) -> Iterator[tuple[float, float, int]]:
    """2,000 at once, with run times of a long tail."""
    return ((n * GAP, dice.lognormvariate(2.5, 0.8), 1) for n in range(2_000))


def steady(dice: Random) -> Iterator[tuple[float, float, int]]:
    """They come as fast as they are done, nearly, and high ones go first."""
    due = 0.0
    for _ in range(2_500):
        due += dice.expovariate(0.5)
        yield due, dice.lognormvariate(2.55, 0.6), dice.choice((0, 1, 1, 1))


def bursts(dice: Random) -> Iterator[tuple[float, float, int]]:
    """Three hundred every twenty minutes."""
    return ((n // 300 * 1_200.0 + n * GAP, dice.lognormvariate(2.3, 0.6), 1) for n in range(2_400))


def slower(dice: Random) -> Iterator[tuple[float, float, int]]:
    """A backlog whose later pieces take three times as long."""
    return ((n * GAP, dice.lognormvariate(2.2, 0.5) * (1 + n / 1_000), 1) for n in range(2_000))


LOADS: Mapping[str, Load] = {
    "a backlog": Load(8, backlog),
    "steady arrivals, two priorities": Load(8, steady),
    "bursts": Load(8, bursts),
    "a backlog under a rate": Load(50, backlog, "1/3s burst 5"),
    "a backlog that gets slower": Load(8, slower),
}

Errors = dict[str, list[float]]
"""By what is estimated: predicted by actual, each from the moment it was estimated at."""


def played(load: Load, dice: Random) -> list[Piece]:
    """The pieces of a load as the scheduler's decision starts them."""
    from queuemgr.base.limit_shorthand import of_rate
    from queuemgr.reporting.replay.recording import RecordedAttempt, recording
    from queuemgr.reporting.replay.simulation import Fleet, replay
    from queuemgr.scheduling.decision_input import LimitRule

    attempts = []
    for number, (due, ran, rank) in enumerate(load.pieces(dice)):
        began = START + timedelta(seconds=due)
        attempts.append(
            RecordedAttempt(
                number, "prep", "probe", rank, "", "", 1, 0, False, "done", began, began,
                began + timedelta(seconds=ran),
            )
        )  # fmt: skip
    rules = {"fleet": LimitRule(allowances=of_rate(load.rate))} if load.rate else {}
    made = recording(attempts, START)
    runs = replay(made, Fleet(load.slots, rules)).runs
    return [
        Piece(
            _seconds(run.due_at),
            _seconds(run.started_at),
            _seconds(run.ended_at),
            made.pieces[n].kind.priority,
        )
        for n, run in runs.items()
        if run.started_at and run.ended_at
    ]


def _seconds(moment: datetime | None) -> float:
    assert moment is not None
    return (moment - START).total_seconds()


def compared(pieces: list[Piece]) -> Errors:
    """Each estimate at each moment, by what happened."""
    ratios: Errors = defaultdict(list)
    last = max(piece.ended for piece in pieces)
    ends = sorted(piece.ended for piece in pieces)
    for number in range(1, MOMENTS):
        now = last * number / MOMENTS
        known = [piece for piece in pieces if piece.due <= now]
        for what, predicted, actual in (
            *_starts(known, now), *_phase(known, ends, now), *_budget(ends, now),
        ):  # fmt: skip
            if actual >= NEAREST:
                ratios[what].append(predicted / actual)
    return ratios


def _starts(known: list[Piece], now: float) -> Iterator[tuple[str, float, float]]:
    """As `queue_position`: the position by the starts of the last ten minutes, for the middle and the last
    one that waits in each queue; and the end after the median run time of those that ended."""
    from queuemgr.reporting.throughput import Starts

    ran = [p.ended - p.started for p in known if now - HOUR < p.ended <= now]
    for rank in sorted({piece.rank for piece in known}):
        queue = [piece for piece in known if piece.rank == rank]
        waiting = sorted((p for p in queue if p.started > now), key=lambda piece: (piece.due, piece.started))
        recent = Starts(sum(now - TEN_MINUTES < p.started <= now for p in queue), min(now, TEN_MINUTES))
        if waiting and recent.per_second:
            for position in {len(waiting) // 2 + 1, len(waiting)}:
                found = waiting[position - 1]
                wait = position / recent.per_second
                yield "start of an execution", wait, found.started - now
                if ran:
                    yield "end of an execution", wait + median(ran), found.ended - now


def _phase(known: list[Piece], ends: list[float], now: float) -> Iterator[tuple[str, float, float]]:
    """As `forecast`: what is unfinished by what ended in the last hour."""
    from queuemgr.reporting.forecast import after

    unfinished = [piece for piece in known if piece.ended > now]
    done = bisect_right(ends, now) - bisect_left(ends, now - HOUR)
    moment = START + timedelta(seconds=now)
    done_at = after(moment, len(unfinished), done / min(now, HOUR))
    if unfinished and done_at:
        actual = max(piece.ended for piece in unfinished) - now
        yield "end of a phase's work", (done_at - moment).total_seconds(), actual


def _budget(ends: list[float], now: float) -> Iterator[tuple[str, float, float]]:
    """A budget of three quarters of what the load uses, one for each end, by the use of the last hour."""
    from queuemgr.reporting.forecast import after

    most, used = len(ends) * 3 // 4, bisect_right(ends, now)
    rate = (used - bisect_left(ends, now - HOUR)) / min(now, HOUR)
    moment = START + timedelta(seconds=now)
    spent_at = after(moment, most - used, rate)
    if used < most and spent_at:
        yield "end of a budget", (spent_at - moment).total_seconds(), ends[most - 1] - now


class Measured(NamedTuple):
    """Of one estimate over one load: how many, the error's median and 90th percentile, and between which
    multiples of the predicted time eight of ten actual ones are."""

    load: str
    what: str
    samples: int
    median: float
    p90: float
    low: float
    high: float


def measured(load: str, what: str, ratios: list[float]) -> Measured:
    """Errors are relative to the actual time."""
    errors = sorted(abs(ratio - 1) for ratio in ratios)
    actual = [1 / ratio for ratio in ratios if ratio]
    tenths = quantiles(actual, n=10, method="inclusive")
    p90 = quantiles(errors, n=10, method="inclusive")[-1]
    return Measured(load, what, len(ratios), median(errors), p90, tenths[0], tenths[-1])


def run(rounds: int) -> Iterator[Measured]:
    every: Errors = defaultdict(list)
    for name, load in LOADS.items():
        ratios: Errors = defaultdict(list)
        for seed in range(rounds):
            for what, some in compared(played(load, Random(seed))).items():
                ratios[what] += some
                every[what] += some
        yield from (measured(name, what, some) for what, some in sorted(ratios.items()) if len(some) > 1)
    yield from (measured("all", what, some) for what, some in sorted(every.items()) if len(some) > 1)


def main() -> None:
    parser = command_line.parser("bench.estimates", __doc__, "--rounds 5", "--json")
    parser.add_argument("--rounds", type=int, default=5, help="seeds of each load (default 5)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    for each in run(options.rounds):
        if options.json:
            print(json.dumps(each._asdict()))
        else:
            print(
                f"{each.load:33} {each.what:23} {each.samples:5}  median {each.median:4.0%}"
                f"  p90 {each.p90:5.0%}  actual {each.low:.2f} to {each.high:.2f} of predicted"
            )


if __name__ == "__main__":
    main()
