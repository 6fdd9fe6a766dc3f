"""Hostile texts as a function takes them: behind a valid beginning, within its limit, inside of JSON.

A text that is refused for its first character or its length says nothing about the work on it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.unit.untrusted_text.functions import in_bytes

Call = Callable[[str], Any]


def tried(call: Callable[[Any], Any], shapes: Iterable[Any]) -> list[Any]:
    """What the call makes of each shape. Raises its last refusal if it refuses them all."""
    results, refusal = [], None
    for shape in shapes:
        try:
            results.append(exhausted(call(shape)))
        except Exception as error:
            if is_never_right(error):
                raise
            refusal = error
    if refusal is not None and not results:
        raise refusal
    return results


NEVER_RIGHT = (
    AssertionError, AttributeError, IndexError, KeyError, MemoryError, RecursionError, TypeError,
    UnboundLocalError, ZeroDivisionError,
)  # fmt: skip
"""A function may refuse a text by an error of its own or ValueError; these say that it did not expect it."""


def is_never_right(error: Exception) -> bool:
    """Also of Python's refusal to read a number of thousands of digits: who reads it must know how many it
    may have."""
    return isinstance(error, NEVER_RIGHT) or "integer string conversion" in str(error)


def exhausted(result: Any) -> Any:
    """The result, with everything that it would make when asked."""
    return list(result) if isinstance(result, Iterator) else result


def behind(call: Callable[[Any], Any], *beginnings: str, most: int | None = None, end: str = "") -> Call:
    """The text behind each of these beginnings, cut to `most` characters with beginning and end."""

    def shaped(text: str) -> Iterator[str]:
        for beginning in beginnings:
            room = len(text) if most is None else most - len(beginning) - len(end)
            yield beginning + text[:room] + end

    return lambda text: tried(call, shaped(text))


def in_json(call: Callable[[Any], Any], *, most: int | None = None, as_bytes: bool = False) -> Call:
    """Documents of JSON with the text in every place, made of at most so many of its characters."""

    def shaped(text: str) -> Iterator[str | bytes]:
        for document in documents(text[:most]):
            yield in_bytes(document) if as_bytes else document

    return lambda text: tried(call, shaped(text))


def documents(text: str) -> Iterator[str]:
    yield json.dumps({"a": text, text[:200]: 1}, ensure_ascii=False)
    yield json.dumps({"a": list(text)})
    pairs = [f'"{number:x}": {number % 10}' for number in range(len(text) // 8)]
    yield "{" + ", ".join(pairs) + "}"
    yield "{" + ", ".join([*pairs, '"z": 1', '"z": 2']) + "}"
    yield '{"a": ' + "[" * 30 + json.dumps(text) + "]" * 30 + "}"
    yield '{"a": ' * (len(text) // 6) + "1" + "}" * (len(text) // 6)
    yield '{"a": ' + "9" * len(text) + "}"
    yield '{"a": ' + text + "}"


def compressed(feed: Callable[[bytes, str], Iterator[bytes]]) -> Call:
    """The text compressed, once and twice, and as many empty parts, in pieces as they are received."""

    def shaped(text: str) -> Iterator[tuple[bytes, str]]:
        body = in_bytes(text)
        yield gzip.compress(body, 1), "gzip"
        yield gzip.compress(gzip.compress(body, 1), 1), "gzip, gzip"
        yield gzip.compress(b"") * (len(body) // 20), "gzip"
        yield gzip.compress(gzip.compress(b"") * (len(body) // 20), 1), "gzip, gzip"

    def fed(given: tuple[bytes, str]) -> int:
        return sum(map(len, feed(*given)))

    return lambda text: tried(fed, shaped(text))
