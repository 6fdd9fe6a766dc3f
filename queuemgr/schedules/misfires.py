"""What is done about due times that nobody saw come: every scheduler was down, or the database away. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from queuemgr.schedules.due_times import DueTimes

SKIP, RUN_ONCE, RUN_ALL = "skip", "run once", "run all"
POLICIES = (SKIP, RUN_ONCE, RUN_ALL)
MOST_RUN = 1000
"""The most due times that are made up for at once."""


class Decision(NamedTuple):
    """The due times to run, and those that are not run any more, if any: the first and the last of them, and
    how many they are, if that is known."""

    run: tuple[datetime, ...]
    missed: tuple[datetime, datetime] | None = None
    times: int | None = None


def decide(
    due: DueTimes, first: datetime, now: datetime, *, policy: str, most: int, grace: timedelta
) -> Decision:
    """Which of the due times until now to run. `first` is the first of all of them, also of those that `due`
    leaves out.

    One that is at most `grace` late is on time, and is run. Of those that were missed `run once` runs the
    latest, unless one that is on time stands for them, and `run all` the latest `most`.
    """
    on_time = tuple(at for at in due.times if now - at <= grace)
    late = due.times[: len(due.times) - len(on_time)]
    made_up: Sequence[datetime] = ()
    if policy == RUN_ALL:
        made_up = late[-most:]
    elif policy == RUN_ONCE and not on_time:
        made_up = late[-1:]
    left = late[: len(late) - len(made_up)]
    if not left and not due.has_earlier:
        return Decision((*made_up, *on_time))
    last = left[-1] if left else first
    return Decision((*made_up, *on_time), (first, last), None if due.has_earlier else len(left))


def how_many(policy: str, most: int, period: timedelta, grace: timedelta) -> int:
    """How many of the latest due times a decision needs to know: those on time, those to be made up for, and
    one that is not."""
    on_time = min(int(grace / period) + 1 if period else 1, MOST_RUN)
    return on_time + (most if policy == RUN_ALL else 1) + 1
