"""Durations and moments as people read them."""

from __future__ import annotations

from datetime import datetime

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


def moment_text(when: datetime, now: datetime) -> str:
    """The time, with the date if it is not today."""
    return f"{when:%H:%M:%S} UTC" if when.date() == now.date() else f"{when:%Y-%m-%d %H:%M} UTC"
