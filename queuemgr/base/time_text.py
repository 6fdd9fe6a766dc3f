"""Durations and moments as people read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def duration_text(seconds: float) -> str:
    """`40 ms`, `3.2 s`, `12 s`, `4 min 10 s`, `3 h`, `2 d 4 h`; a negative one is `0 s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds > 0 else "0 s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    left, parts = round(seconds), []
    for size, unit in _UNITS:
        whole, left = divmod(left, size)
        parts.append(f"{whole} {unit}" if whole else "")
    first = next(place for place, part in enumerate(parts) if part)
    return " ".join(filter(None, parts[first : first + 2]))


_zone: ContextVar[tzinfo] = ContextVar("queuemgr_viewers_zone", default=UTC)


@contextmanager
def in_zone_of_viewer(zone: tzinfo) -> Iterator[None]:
    """Write times of day in this zone, that of the person who reads; elsewhere they are in UTC."""
    token = _zone.set(zone)
    try:
        yield
    finally:
        _zone.reset(token)


def in_zone(when: datetime) -> datetime:
    """The same moment in the zone of whoever reads."""
    return when.astimezone(_zone.get())


def moment_text(when: datetime, now: datetime | None = None) -> str:
    """`2026-11-28 14:32:07 UTC`, the one form in which moments are shown; without the date if that is today
    and `now` is given."""
    shown = in_zone(when)
    is_today = now is not None and shown.date() == in_zone(now).date()
    return f"{shown:%H:%M:%S %Z}" if is_today else f"{shown:%Y-%m-%d %H:%M:%S %Z}"
