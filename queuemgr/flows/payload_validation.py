"""Checks of payloads: a JSON object of bounded size that both databases can store."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import MESSAGE_LIMIT, masked

MAX_BYTES = 65_536
"""Bytes of JSON. A payload names the work and does not hold its data; the bound is our choice."""

NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""A NUL as JSON writes it, and not the text `\\u0000`, whose backslash is written twice."""


def validate(payload: Any) -> dict[str, Any]:
    """The payload as it will be stored. Raises `BadInput`, which says what is wrong with it."""
    if not isinstance(payload, Mapping):
        kinds = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
        kind = kinds.get(type(payload), "a number")
        raise BadInput(f"a payload is a JSON object, as {{}}, not {kind}")
    try:
        text = json.dumps(dict(payload), ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadInput("the payload holds half a surrogate pair, which is not a character") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"the payload is not JSON ({error}); NaN and Infinity are not either") from None
    if size > MAX_BYTES:
        raise BadInput(f"the payload has {size:,} bytes of JSON; at most {MAX_BYTES:,} fit")
    if NUL.search(text):
        raise BadInput("the payload holds a NUL character (\\u0000), which no row can hold")
    stored: dict[str, Any] = json.loads(text)
    return stored


def parse(text: str) -> dict[str, Any]:
    """Parse a payload written as JSON. Raises `BadInput` with the line and column of an error."""
    if len(text) > MAX_BYTES * 2:
        raise BadInput(f"the payload has {len(text):,} characters; {MAX_BYTES:,} bytes fit")
    try:
        payload = json.loads(text, object_pairs_hook=_once_each)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadInput(f"this is not JSON: {where}: {error.msg}") from None
    except RecursionError:
        raise BadInput("this JSON is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise BadInput(f"this JSON cannot be read: {error}") from None
    return validate(payload)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"the name {twice!r} occurs twice in one object: keep one")
    return members


MASK = "***"


def restore_masked(typed: Any, before: Any) -> Any:
    """The payload after a person edited it as it was shown, masked: what they left as shown keeps its
    value. Raises `BadInput` for a mask where no masked value was."""
    if isinstance(typed, dict):
        inner = before if isinstance(before, dict) else {}
        names = {masked(name): name for name in inner}
        if len(names) < len(inner):
            raise BadInput("two names of this payload look alike masked: it cannot be edited here")
        pairs = ((names.get(name, name), value) for name, value in typed.items())
        return {name: restore_masked(value, inner.get(name)) for name, value in pairs}
    if isinstance(typed, list):
        others = before if isinstance(before, list) else []
        return [restore_masked(one, other) for one, other in zip_longest(typed, others[: len(typed)])]
    if isinstance(typed, str) and isinstance(before, str) and typed == masked(before):
        return before
    if isinstance(before, str) and len(before) > MESSAGE_LIMIT and str(typed).endswith("…"):
        raise BadInput(f"{str(typed)[:60]!r} was shown cut: write the whole text")
    if isinstance(typed, str) and MASK in typed:
        raise BadInput(f"{typed[:60]!r} holds a mask, not the value behind it: write the value")
    return typed
