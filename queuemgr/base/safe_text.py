"""Text and JSON that is safe to print: control and direction characters are escaped."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any
from unicodedata import category


def safe_text(text: str) -> str:
    """Text for a terminal: control characters other than tab and newline as `\\uXXXX`."""
    return _CONTROLS.sub(_escape, text)


def one_line(text: str) -> str:
    """Text for a line of a log: whatever a terminal or a reader of lines would not show as it is (line ends,
    controls, direction marks, invisible characters, lone surrogates) is escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or category(c) == "Zs" else repr(c)[1:-1] for c in text)


def excerpt(value: object, most: int = 60) -> str:
    """The beginning of a value in a message that refuses it, as Python writes it."""
    if isinstance(value, str):
        return f"{str.__str__(value)[:most]!r}" + "…" * (len(value) > most)
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"  # or what holds one: Python does not write them
    return text if len(text) <= most else f"{text[:most]}…"


def json_problem(error: ValueError | RecursionError) -> str:
    """What is wrong with a text that `json.loads` refused with this, as a sentence that needs no Python."""
    if isinstance(error, RecursionError):
        return "this JSON is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"this is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
    return "this JSON holds a number of thousands of digits"


_NOT_STORABLE = re.compile("[\x00\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can hold this text: it has no NUL and no half of a surrogate pair."""
    return _NOT_STORABLE.search(text) is None


_UNPRINTED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""C1 controls, direction marks, line separators and lone surrogates."""

_CONTROLS = re.compile(f"[\x00-\x08\x0b-\x1f]|{_UNPRINTED.pattern}")


def as_json(value: Any) -> str:
    """One line of JSON, with times as ISO 8601 in UTC and other values as text."""
    return _UNPRINTED.sub(_escape, json.dumps(value, ensure_ascii=False, default=as_text))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def as_text(value: Any) -> str:
    """A time as ISO 8601 in UTC with microseconds; any other value as Python prints it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return str(value)
