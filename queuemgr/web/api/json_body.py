"""Reading what was sent: JSON that both databases can hold, or a problem that says what is wrong.

PostgreSQL takes neither NUL nor half a surrogate pair in text, nor NaN in JSON; SQLite takes them all.
What one of them refuses is refused before either is asked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NoReturn

from django.http import HttpRequest
from ninja.parser import Parser

from queuemgr.web.api.problems import Problem

DEEPEST = 32
"""Levels of lists and objects within each other."""

LARGEST = 2**63 - 1
"""The largest whole number every reader of JSON we know of keeps exactly in 64 bits."""

DIGITS = 30
"""Longer numbers are not looked at: turning them into numbers is what costs."""


class StrictJson(Parser):
    """Ninja's parser, which takes what Python takes, made to take what we can keep."""

    def parse_body(self, request: HttpRequest) -> Any:
        if request.content_type != "application/json":
            given = (request.content_type or "nothing")[:60]
            raise Problem("not-json", f"the body must be application/json, not {given}")
        return read(request.body)

    def parse_querydict(self, data: Any, list_fields: list[str], request: HttpRequest) -> Any:
        found = super().parse_querydict(data, list_fields, request)
        for value in found.values():
            for text in value if isinstance(value, list) else [value]:
                check_text(str(text))
        return found


def read(body: bytes) -> Any:
    """The value in a body; raises `Problem` 400 for what is no JSON, 422 for what we cannot keep."""
    try:
        value = json.loads(
            body.decode("utf-8"), parse_constant=_refuse, parse_int=_whole, parse_float=_real
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
    """Raise `Problem` for a text PostgreSQL cannot hold."""
    if "\x00" in text:
        raise Problem("invalid", "text with a NUL character (U+0000) cannot be kept")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Problem("invalid", "text with half a surrogate pair cannot be kept") from None


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, names included, without recursion; raises when it lies too deep."""
    level = [value]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for one in level:
            if isinstance(one, str):
                yield one
            elif isinstance(one, dict):
                yield from one
                below += one.values()
            elif isinstance(one, list):
                below += one
        level = below
    if level:
        raise _too_deep()


def _too_deep() -> Problem:
    return Problem("invalid", f"JSON deeper than {DEEPEST} levels is not taken")


def _refuse(constant: str) -> NoReturn:
    raise Problem("invalid", f"{constant} is no number JSON knows")


def _whole(digits: str) -> int:
    number = int(digits) if len(digits) <= DIGITS else LARGEST + 1
    if abs(number) > LARGEST:
        raise Problem("invalid", f"the number {digits[:DIGITS]} does not fit in 64 bits")
    return number


def _real(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise Problem("invalid", f"the number {digits[:DIGITS]} is too large")
    return number
