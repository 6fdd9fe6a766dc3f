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

MAX_VALUES = 100_000
"""In one body: a hundred for each of the most executions in a request. Each that is wrong has an error of its
own, which takes longer than to read it."""

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
    _Check().check(value, MAX_DEPTH)
    return value


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= MAX_DIGITS else math.inf


class _Check:
    """Looks at each value of a body once."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def check(self, value: Any, levels: int) -> None:
        """Raise `Problem` for what cannot be stored, is nested deeper than so many levels, or is too much."""
        if isinstance(value, str):
            check_text(value)
        elif isinstance(value, float) and not math.isfinite(value):
            raise Problem("invalid", "a number is NaN, infinite, or too large to be stored")
        elif isinstance(value, int) and abs(value) >= 2**63:
            raise Problem("invalid", f"the number {value} does not fit in 64 bits")
        elif isinstance(value, dict | list):
            self._count(len(value))
            if not levels:
                raise _too_deep()
            for item in (*value, *value.values()) if isinstance(value, dict) else value:
                self.check(item, levels - 1)

    def _count(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise Problem("too-large", f"a body has at most {MAX_VALUES:,} values: split the request")


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
