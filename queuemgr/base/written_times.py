"""Times as people write them: ISO 8601, a word, or so long ago or ahead (`2h`, `90s`, `1d12h`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from queuemgr.base.errors import BadInput

FORMAT = "2026-11-28 06:00 (UTC unless it has an offset), 2h, 1d12h, now, today, yesterday or tomorrow"

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(?:[0-9]{1,6} ?(?:s|min|m|h|d|w) ?){1,5}")
_PART = re.compile(r"([0-9]{1,6}) ?(s|min|m|h|d|w)")
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_EARLIEST, _LATEST = 1970, 9000
_LONGEST = 40


def moment(text: str, now: datetime, *, ahead: bool = False) -> datetime:
    """In UTC. A span is so long ago, or with `ahead` so long from now. Raises `BadInput`."""
    try:
        given = _read(text.strip()[:_LONGEST], now, ahead)
        if _EARLIEST <= given.year < _LATEST:
            return given.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise BadInput(f"{text[:40]!r} is not a time; write {FORMAT}")


def _read(text: str, now: datetime, ahead: bool) -> datetime:
    if _SPAN.fullmatch(text.lower()):
        seconds = sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text.lower()))
        return now + timedelta(seconds=seconds if ahead else -seconds)
    if text.lower() == "now":
        return now
    if text.lower() in _DAYS:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight + timedelta(days=_DAYS[text.lower()])
    given = datetime.fromisoformat(text)
    return given if given.tzinfo else given.replace(tzinfo=UTC)
