"""What a Retry-After header asks for, in seconds (RFC 9110, section 10.2.3)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST = 366 * 86_400.0
"""Seconds. A wait past a year is a broken header, and would overflow the date it is added to."""

_SECONDS = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,9})?")


def retry_after_seconds(value: str | None, now: datetime) -> float | None:
    """Seconds to wait from `now` (aware), or None when the header says nothing usable.

    Takes seconds and all three forms of HTTP date. What lies in the past, or is negative, is 0.
    """
    text = (value or "").strip()
    wait = float(text) if _SECONDS.fullmatch(text) else _until(text, now)
    if wait is None or wait > LONGEST:
        return None
    return max(0.0, wait)


def _until(text: str, now: datetime) -> float | None:
    when = http_date(text)
    return None if when is None else (when - now).total_seconds()


def http_date(text: str) -> datetime | None:
    """The moment an HTTP date names, or None; a date without a zone is in GMT."""
    try:
        when = parsedate_to_datetime(text)
        return when if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
