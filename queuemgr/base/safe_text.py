"""Text and JSON for any terminal, log and reader: nothing in them steers, turns or breaks a line."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any


def safe_text(text: str) -> str:
    """Text as it can be put on a terminal: what would steer it is shown by its code."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_UNPRINTED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What steers a terminal, turns text round, ends a line for some readers, or is no character alone."""


_CONTROLS = re.compile(f"[\x00-\x08\x0b-\x1f]|{_UNPRINTED.pattern}")


def as_json(value: Any) -> str:
    """One line of JSON for any reader and any terminal, moments as ISO 8601 in UTC."""
    line = json.dumps(value, ensure_ascii=False, default=_plain)
    return _UNPRINTED.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return str(value)
