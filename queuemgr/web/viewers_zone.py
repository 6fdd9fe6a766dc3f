"""The time zone of the person who looks at a page, as their browser says in a cookie; UTC until it has."""

from __future__ import annotations

import re
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from django.http import HttpRequest

COOKIE = "sluice_zone"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,20}(?:/[A-Za-z0-9_+-]{1,20}){0,2}")


def zone_of(request: HttpRequest) -> tzinfo:
    return _zone(request.COOKIES.get(COOKIE, "")[:64])


def _zone(name: str) -> tzinfo:
    if not NAME.fullmatch(name):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # such as a folder of zones
        return UTC
