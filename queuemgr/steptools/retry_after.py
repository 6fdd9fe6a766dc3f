"""The wait a response asks for: in Retry-After (RFC 9110, section 10.2.3), or in milliseconds beside it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

LONGEST = 366 * 86_400.0
"""Seconds. A wait of more than a year is a broken header, and could overflow a date."""

_SECONDS = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,9})?")


def retry_after_seconds(value: str | None, now: datetime) -> float | None:
    """Seconds to wait from `now` (aware), or None if the header is unusable.

    Accepts seconds and all three forms of HTTP date. A past date or a negative number is 0.
    """
    text = (value or "").strip()
    wait = float(text) if _SECONDS.fullmatch(text) else _until(text, now)
    if wait is None or wait > LONGEST:
        return None
    return max(0.0, wait)


MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms")
"""Headers with a wait in milliseconds, as OpenAI and Azure send beside Retry-After."""


class Headers(Protocol):
    """The headers of a response; those of HTTP clients find a name in any case."""

    def get(self, name: str, /) -> str | None: ...


def wait_in(headers: Headers, now: datetime) -> float | None:
    """The wait these headers ask for. One in milliseconds is more exact than Retry-After beside it."""
    for name in MILLISECONDS:
        text = (headers.get(name) or "").strip()
        if _SECONDS.fullmatch(text) and (wait := float(text) / 1000) <= LONGEST:
            return max(0.0, wait)
    return retry_after_seconds(headers.get("retry-after"), now)


def _until(text: str, now: datetime) -> float | None:
    when = http_date(text)
    return None if when is None else (when - now).total_seconds()


def http_date(text: str) -> datetime | None:
    """The time of an HTTP date, or None if it cannot be read; without a zone it is in GMT."""
    try:
        when = parsedate_to_datetime(text)
        return when if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
