"""Which day a moment belongs to in a time zone, and when that day ends. Pure.

A day runs from midnight to midnight on the wall clock of its zone: 23 or 25 hours long when the
clocks change. Where midnight is skipped, the day begins when the clocks jump over it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from queuemgr.base.errors import BadInput


@lru_cache(maxsize=200)
def zone(name: str) -> ZoneInfo:
    """The time zone of an IANA name; raises `BadInput` when there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInput(
            f"time zone {name!r} is not known; use an IANA name such as Europe/Berlin or UTC"
        ) from None


def day_of(moment: datetime, zone_name: str) -> date:
    """The day on the wall clock of the zone."""
    return moment.astimezone(zone(zone_name)).date()


def day_ends(moment: datetime, zone_name: str) -> datetime:
    """When that day ends, in UTC."""
    midnight = datetime.combine(
        day_of(moment, zone_name) + timedelta(days=1), time(), zone(zone_name)
    )
    return midnight.astimezone(UTC)
