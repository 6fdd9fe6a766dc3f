"""The schedules of a run: what the application declares, and what the checker expects of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Periodic:
    """A schedule, and the seconds between its due times, or from the end of a run to the next of them."""

    name: str
    timing: str
    seconds: float
    misfire: str = "run once"
    from_end: bool = False


PERIODIC: Sequence[Periodic] = (
    Periodic("proof-minutes", "cron * * * * * in Europe/Berlin", 60, misfire="run all"),
    Periodic("proof-seconds", "every 3s from start", 3),
    Periodic("proof-pauses", "every 4s from end", 4, from_end=True),
)
MOST_MADE_UP = 5
"""Due times that a look makes up for after a step of the clock by days."""
