"""Parses request bodies and queries, and refuses values that one of the databases cannot store.

PostgreSQL accepts neither NUL nor lone surrogates in text, nor NaN in JSON; SQLite accepts them all.
"""

from __future__ import annotations

import json
import math
from typing import Any

from django.http import HttpRequest
from ninja.parser import Parser

from queuemgr.web.api.problems import Problem

MAX_DEPTH = 32
"""Levels of nested lists and objects."""

MAX_DIGITS = 30
"""Longer integers are refused unparsed: parsing them is slow."""


class StrictJson(Parser):
    """Ninja's parser, which by itself accepts whatever Python's `json` does."""

    def parse_body(self, request: HttpRequest) -> Any:
        if request.content_type != "application/json":
            sent = (request.content_type or "nothing")[:60]
            raise Problem("not-json", f"the body must be application/json, not {sent}")
        return read(request.body)

    def parse_querydict(self, data: Any, list_fields: list[str], request: HttpRequest) -> Any:
        parameters = super().parse_querydict(data, list_fields, request)
        for value in parameters.values():
            for text in value if isinstance(value, list) else [value]:
                check_text(str(text))
        return parameters


def read(body: bytes) -> Any:
    """The value in a body; raises `Problem` 400 for invalid JSON, 422 for what cannot be stored."""
    try:
        value = json.loads(body.decode(), parse_int=_integer)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise Problem("unreadable", f"the body is not JSON: {error}") from None
    _check(value, MAX_DEPTH)
    return value


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= MAX_DIGITS else math.inf


def _check(value: Any, levels: int) -> None:
    """Raise `Problem` for what cannot be stored, or is nested deeper than so many levels."""
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise Problem("invalid", "a number is NaN, infinite, or too large to be stored")
    elif isinstance(value, int) and abs(value) >= 2**63:
        raise Problem("invalid", f"the number {value} does not fit in 64 bits")
    elif isinstance(value, dict | list):
        if not levels:
            raise _too_deep()
        for item in (*value, *value.values()) if isinstance(value, dict) else value:
            _check(item, levels - 1)


def check_text(text: str) -> None:
    """Raise `Problem` for text that PostgreSQL cannot store."""
    if "\x00" in text:
        raise Problem("invalid", "text with a NUL character (U+0000) cannot be stored")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Problem("invalid", "text with a lone surrogate cannot be stored") from None


def _too_deep() -> Problem:
    return Problem("invalid", f"JSON deeper than {MAX_DEPTH} levels is refused")
