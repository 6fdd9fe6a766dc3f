"""Every change of clocks in the tz database within some years, once for each kind of zone."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)


class Change(NamedTuple):
    """The first moment at which the clocks of a zone show another offset."""

    zone: str
    at: datetime
    before: timedelta
    after: timedelta

    def __str__(self) -> str:
        return f"{self.zone} {self.at:%Y-%m-%d %H:%M}"

    @property
    def jump(self) -> timedelta:
        return self.after - self.before


def local(moment: datetime, zone: str) -> datetime:
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)


def minutes(start: datetime, end: datetime) -> Iterator[datetime]:
    """Each whole minute after `start` and until `end`."""
    moment = start.replace(second=0, microsecond=0) + MINUTE
    while moment <= end:
        yield moment
        moment += MINUTE


def changes(first_year: int, last_year: int) -> list[Change]:
    """One of those that are alike but for the name of their zone."""
    found: dict[object, Change] = {}
    for name in sorted(zoneinfo.available_timezones()):
        for change in _of_zone(name, first_year, last_year):
            found.setdefault(change[1:], change)
    return sorted(found.values(), key=lambda change: (change.at, change.zone))


def _of_zone(name: str, first_year: int, last_year: int) -> Iterator[Change]:
    zone = ZoneInfo(name)
    day, end = datetime(first_year, 1, 1, tzinfo=UTC), datetime(last_year + 1, 1, 1, tzinfo=UTC)
    offset = day.astimezone(zone).utcoffset()
    while day < end:
        following = day + timedelta(days=1)
        then = following.astimezone(zone).utcoffset()
        if then != offset and offset is not None and then is not None:
            at = next(m for m in minutes(day, following) if m.astimezone(zone).utcoffset() != offset)
            yield Change(name, at, offset, then)
        day, offset = following, then
