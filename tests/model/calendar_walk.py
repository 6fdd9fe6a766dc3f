"""Which due times a timing has, found out without the product: by a walk minute by minute."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
DAYS = 12
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Havana",
    "Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham", "Antarctica/Troll",
)  # fmt: skip
NIGHTS = (
    datetime(2026, 3, 28, 18, tzinfo=UTC), datetime(2026, 10, 24, 18, tzinfo=UTC),
    datetime(2026, 3, 7, 20, tzinfo=UTC), datetime(2026, 10, 31, 20, tzinfo=UTC),
    datetime(2026, 4, 4, 8, tzinfo=UTC), datetime(2026, 4, 23, 12, tzinfo=UTC),
)  # fmt: skip
"""Before nights in which clocks change in some of the zones."""


class Walked(NamedTuple):
    """A minute of the walk, and what clocks show then."""

    at: datetime
    local: datetime


@cache
def walk(zone: str, start: datetime) -> tuple[Walked, ...]:
    """From a day before the start on."""
    there, first = ZoneInfo(zone), start - timedelta(days=1)
    moments = (first + n * MINUTE for n in range(DAYS * 1440))
    return tuple(Walked(at, at.astimezone(there).replace(tzinfo=None)) for at in moments)


class Recurring(NamedTuple):
    """Due whenever clocks show one of these minutes: also twice, where an hour comes twice."""

    zone: str
    expression: str
    minutes: Sequence[int]

    def __str__(self) -> str:
        return f"cron {self.expression} in {self.zone}"

    def due(self, start: datetime) -> list[datetime]:
        return [at for at, local in walk(self.zone, start) if local.minute in self.minutes and at > start]


class Daily(NamedTuple):
    """Due once on each local day: when clocks first show this time or a later one."""

    zone: str
    hour: int
    minute: int
    exclude: str = ""

    def __str__(self) -> str:
        left_out = f" except {self.exclude}" if self.exclude else ""
        return f"cron {self.minute} {self.hour} * * * in {self.zone}{left_out}"

    def due(self, start: datetime) -> list[datetime]:
        first: dict[object, datetime] = {}
        for at, local in walk(self.zone, start):
            if (local.hour, local.minute) >= (self.hour, self.minute):
                first.setdefault(local.date(), at)
        there = ZoneInfo(self.zone)
        days = ((at, f"{at.astimezone(there):%a}".lower()) for at in first.values())
        return [at for at, weekday in days if at > start and weekday != self.exclude]


class Interval(NamedTuple):
    """Due again and again, counted from when it came into force, by a clock that is not set back."""

    minutes: int

    def __str__(self) -> str:
        return f"every {self.minutes}m from start"

    def due(self, start: datetime) -> list[datetime]:
        step = self.minutes * MINUTE
        return [start + n * step for n in range(1, DAYS * 1440 // self.minutes)]


class Single(NamedTuple):
    """Due at one moment."""

    at: datetime

    def __str__(self) -> str:
        return f"once {self.at.isoformat()}"

    def due(self, start: datetime) -> list[datetime]:
        return [self.at] if self.at > start else []


Drawn = Recurring | Daily | Interval | Single


def drawn(random: Random, start: datetime, *, intervals: bool) -> Drawn:
    """Any timing; with `intervals` also one that is counted from a moment."""
    zone = random.choice(ZONES)
    kinds = ("recurring", "recurring", "recurring", "hourly", "daily", "single", *["interval"] * intervals)
    kind = random.choice(kinds)
    if kind == "recurring":
        step = random.choice((1, 2, 5, 15, 30, 60))
        minutes = "*" if step == 1 else f"*/{step}" if step < 60 else "0"
        return Recurring(zone, f"{minutes} * * * *", range(0, 60, step))
    if kind == "hourly":
        minute = random.randrange(60)
        return Recurring(zone, f"{minute} * * * *", (minute,))
    if kind == "daily":
        hour, minute = random.choice((0, 1, 2, 2, 3, 23, 12)), random.randrange(60)
        return Daily(zone, hour, minute, random.choice(("", "", "sun", "mon")))
    if kind == "interval":
        return Interval(random.choice((1, 7, 60, 1440)))
    return Single(start + random.randint(1, 3000) * MINUTE)
