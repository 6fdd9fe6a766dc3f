"""The day of a budget: which day a time belongs to in a time zone, and when that day ends. Pure.

A day runs from midnight to midnight of local time, so it has 23 or 25 hours when the clocks change. In
a zone that skips midnight the day begins when the clocks jump over it.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from queuemgr.base.errors import BadInput

LONGEST_NAME = 64
_NAME = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,2}")
"""Of the IANA database. `ZoneInfo` takes any other text for the name of a package, which it imports."""


@lru_cache(maxsize=200)
def zone(name: str) -> ZoneInfo:
    """The time zone of an IANA name; raises `BadInput` for an unknown one."""
    try:
        if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
            raise ValueError("no such name")
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInput(
            f"time zone {name!r:.80} is not known; use an IANA name such as Europe/Berlin or UTC"
        ) from None


def day_of(moment: datetime, zone_name: str) -> date:
    """The local date in the zone."""
    return moment.astimezone(zone(zone_name)).date()


def day_ends(moment: datetime, zone_name: str) -> datetime:
    """When that date ends, in UTC."""
    midnight = datetime.combine(day_of(moment, zone_name) + timedelta(days=1), time(), zone(zone_name))
    return midnight.astimezone(UTC)
