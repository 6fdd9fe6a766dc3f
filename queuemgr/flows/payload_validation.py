"""Checks of what an execution is enqueued with: both databases must store it, and give it back unchanged.

PostgreSQL stores neither NUL nor half a surrogate pair in a text, and SQLite no JSON nested a thousand deep;
so neither is accepted, whichever database there is.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import MESSAGE_LIMIT, masked
from queuemgr.base.safe_text import excerpt, json_problem

MAX_BYTES = 65_536
"""Bytes of JSON. A payload names the work and does not hold its data; the bound is our choice."""

MAX_DEPTH = 100
"""Levels of nesting: far below what databases and Python's own recursion allow."""

MAX_KEY = 255
"""Characters of an execution's key."""

WHOLE = 1e16
"""From here on a float is written with an exponent, and PostgreSQL gives back a whole number: another one,
unless all its digits are written."""


def check_text(what: str, text: object, most: int) -> str:
    """The text, of 1 to `most` characters, if a column can hold it. Raises `BadInput`, which names `what`."""
    if not isinstance(text, str):
        raise BadInput(f"{what} {excerpt(text)} is {type(text).__name__}: give a text")
    if not 0 < len(text) <= most:
        raise BadInput(f"{what} {text[:60]!r} has {len(text)} characters; 1 to {most} fit")
    _check_characters(what, text)
    return text


def _check_characters(what: str, text: str) -> None:
    if "\x00" in text:
        raise BadInput(f"{what} {text[:60]!r} holds a NUL character (\\u0000), which no row can hold")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(
            f"{what} {text[:60]!r} holds half a surrogate pair, which is not a character"
        ) from None


def check_key(key: object) -> str:
    """The key of an execution, if a row can hold it. Raises `BadInput`."""
    return check_text("key", key, MAX_KEY)


def validate(payload: Any) -> dict[str, Any]:
    """The payload as it will be stored, with tuples as lists. Raises `BadInput`, which says what is wrong
    with it."""
    if not isinstance(payload, Mapping):
        kinds = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
        kind = kinds.get(type(payload), "a number" if isinstance(payload, int | float) else "this")
        raise BadInput(f"a payload is a JSON object, as {{}}, not {kind}")
    stored: dict[str, Any] = _storable(payload, 1)
    try:
        size = len(json.dumps(stored, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError) as error:  # a number of thousands of digits
        raise BadInput(f"the payload is not JSON ({error})") from None
    if size > MAX_BYTES:
        raise BadInput(f"the payload has {size:,} bytes of JSON; at most {MAX_BYTES:,} fit")
    return stored


def _storable(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        _check_characters("the payload's text", value)
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _finite(float(value))
    if depth > MAX_DEPTH:
        raise BadInput(f"the payload is nested too deeply: more than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return {_name(name): _storable(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(inner, depth + 1) for inner in value]
    raise BadInput(
        f"the payload is not JSON: it holds {type(value).__name__}; JSON has texts, numbers, true, false, "
        "null, lists and objects"
    )


def _finite(number: float) -> float | int:
    if not math.isfinite(number):
        raise BadInput(f"the payload is not JSON: {number}; NaN and Infinity are none of its numbers")
    return int(number) if abs(number) >= WHOLE else number


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise BadInput(
            f"the payload is not JSON: {name!r}, a name in it, is {type(name).__name__}, not a text"
        )
    _check_characters("the payload's name", name)
    return str.__str__(name)


def parse(text: str) -> dict[str, Any]:
    """Parse a payload written as JSON. Raises `BadInput` with the line and column of an error."""
    if len(text) > MAX_BYTES * 2:
        raise BadInput(f"the payload has {len(text):,} characters; {MAX_BYTES:,} bytes fit")
    try:
        payload = json.loads(text, object_pairs_hook=_once_each)
    except (ValueError, RecursionError) as error:
        raise BadInput(json_problem(error)) from None
    return validate(payload)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen = Counter(name for name, _ in pairs)
        twice = next(name for name, times in seen.items() if times > 1)
        raise BadInput(f"the name {twice!r} occurs twice in one object: keep one")
    return members


MASK = "***"


def restore_masked(typed: Any, before: Any, shown: Callable[[Any], Any] = masked) -> Any:
    """The payload after somebody edited it as it was shown, masked: what they left as shown keeps its
    value. Raises `BadInput` for a mask where no masked value was."""
    if isinstance(typed, dict):
        inner = before if isinstance(before, dict) else {}
        names = {shown(name): name for name in inner}
        if len(names) < len(inner):
            raise BadInput("two names of this payload look alike masked: it cannot be edited here")
        pairs = ((names.get(name, name), value) for name, value in typed.items())
        return {name: restore_masked(value, inner.get(name), shown) for name, value in pairs}
    if isinstance(typed, list):
        others = before if isinstance(before, list) else []
        return [restore_masked(one, other, shown) for one, other in zip_longest(typed, others[: len(typed)])]
    if isinstance(typed, str) and isinstance(before, str) and typed == shown(before):
        return before
    was_cut = isinstance(before, str) and len(before) > MESSAGE_LIMIT >= len(shown(before))
    if was_cut and str(typed).endswith("…"):
        raise BadInput(f"{excerpt(typed)} was shown cut: write the whole text")
    if isinstance(typed, str) and MASK in typed:
        raise BadInput(f"{typed[:60]!r} holds a mask, not the value behind it: write the value")
    return typed
