"""Parses request bodies and queries, and refuses values that one of the databases cannot store.

PostgreSQL accepts neither NUL nor lone surrogates in text, nor NaN in JSON; SQLite accepts them all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NoReturn

from django.http import HttpRequest
from ninja.parser import Parser

from queuemgr.web.api.problems import Problem

MAX_DEPTH = 32
"""Levels of nested lists and objects."""

MAX_INTEGER = 2**63 - 1
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
        found = super().parse_querydict(data, list_fields, request)
        for value in found.values():
            for text in value if isinstance(value, list) else [value]:
                check_text(str(text))
        return found


def read(body: bytes) -> Any:
    """The value in a body; raises `Problem` 400 for invalid JSON, 422 for what cannot be stored."""
    try:
        value = json.loads(
            body.decode("utf-8"), parse_constant=_refuse, parse_int=_integer, parse_float=_float
        )
    except UnicodeDecodeError:
        raise Problem("unreadable", "the body is not UTF-8") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise Problem("unreadable", f"the body is not JSON: {error}") from None
    for text in _texts(value):
        check_text(text)
    return value


def check_text(text: str) -> None:
    """Raise `Problem` for text that PostgreSQL cannot store."""
    if "\x00" in text:
        raise Problem("invalid", "text with a NUL character (U+0000) cannot be stored")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Problem("invalid", "text with a lone surrogate cannot be stored") from None


def _texts(value: Any) -> Iterator[str]:
    """Every string in a value, with the names of members; raises `Problem` beyond `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                yield item
            elif isinstance(item, dict):
                yield from item
                below += item.values()
            elif isinstance(item, list):
                below += item
        level = below
    if level:
        raise _too_deep()


def _too_deep() -> Problem:
    return Problem("invalid", f"JSON deeper than {MAX_DEPTH} levels is refused")


def _refuse(constant: str) -> NoReturn:
    raise Problem("invalid", f"{constant} is not a JSON number")


def _integer(digits: str) -> int:
    number = int(digits) if len(digits) <= MAX_DIGITS else MAX_INTEGER + 1
    if abs(number) > MAX_INTEGER:
        raise Problem("invalid", f"the number {digits[:MAX_DIGITS]} does not fit in 64 bits")
    return number


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise Problem("invalid", f"the number {digits[:MAX_DIGITS]} is too large")
    return number
