"""Texts made from a regular expression: what it matches, what it nearly matches, and that over and over.

A backtracking engine is slow on a text that matches for long and then does not: so each text repeats a part
of the pattern and ends in a character that fits nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]  # the parser that `re` itself uses
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

PROBES = "aA1 -.,:;/()[]\"'_@\n<>é中é\u00a0#*|$%&+=~`{}!?\\\t“«…\ufffd\ud800\x00"
"""Characters tried as members of a class, the likely ones first."""

END = "\x01"
"""What follows the repeated part, to make it fail."""


class Repeated(NamedTuple):
    """A text of any length: something that leads up to what is repeated."""

    prefix: str
    unit: str

    def __call__(self, size: int) -> str:
        return self.prefix + self.unit * (size // len(self.unit)) + END


@lru_cache(maxsize=1000)
def texts_of(pattern: re.Pattern[Any]) -> tuple[Repeated, ...]:
    """A few texts for each repeat in the pattern, and what it matches or nearly matches over and over."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = list(parser.parse(source, pattern.flags & ~re.UNICODE))
    found = []
    for last in (False, True):
        found += [Repeated(prefix, unit) for unit, prefix in parts_of(tree, last)]
        whole = sample(tree, last)
        found += [Repeated("", unit) for unit in (whole, whole[:-1], whole + " ", whole[:-1] + "\n")]
    return tuple(dict.fromkeys(each for each in found if each.unit))


def parts_of(tree: Sequence[Any], last: bool, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Each part that may repeat, with a text that leads up to it; also prefix and part repeated together."""
    for op, value in tree:
        for inner in inner_of(op, value):
            yield from parts_of(inner, last, prefix)
        if op in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT) and value[1] > 8:
            unit = sample(value[2], last)
            yield unit, prefix
            yield prefix + unit * 3, ""
        prefix += sample([(op, value)], last)


def inner_of(op: Any, value: Any) -> Iterator[Sequence[Any]]:
    if op in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        yield value[2]
    elif op is codes.SUBPATTERN:
        yield value[3]
    elif op is codes.BRANCH:
        yield from value[1]
    elif op in (codes.ASSERT, codes.ASSERT_NOT):
        yield value[1]
    elif op is codes.ATOMIC_GROUP:
        yield value


def sample(tree: Sequence[Any], last: bool) -> str:
    """A short text that the pattern matches, by its first or its last alternatives."""
    return "".join(sampled(op, value, last) for op, value in tree)


def sampled(op: Any, value: Any, last: bool) -> str:
    if op is codes.LITERAL:
        return chr(value)
    if op in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return sample(value[2], last) * min(max(value[0], 1), 5)
    if op is codes.SUBPATTERN:
        return sample(value[3], last)
    if op is codes.BRANCH:
        return sample(value[1][-1 if last else 0], last)
    if op is codes.ATOMIC_GROUP:
        return sample(value, last)
    if op in (codes.IN, codes.ANY, codes.NOT_LITERAL):
        return member(op, value, last)
    return ""  # anchors, look-arounds


def member(op: Any, value: Any, last: bool) -> str:
    fits = re.compile(one_of(op, value))
    found = [probe for probe in PROBES if fits.match(probe)]
    if found:
        return found[-1 if last else 0]
    kind, first = value[0] if op is codes.IN else (codes.LITERAL, 120)
    return chr(first[0] if kind is codes.RANGE else first) if kind in (codes.RANGE, codes.LITERAL) else "x"


CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d", codes.CATEGORY_NOT_DIGIT: r"\D", codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S", codes.CATEGORY_WORD: r"\w", codes.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


def one_of(op: Any, value: Any) -> str:
    """The class as a pattern of its own."""
    if op is codes.ANY:
        return "."
    if op is codes.NOT_LITERAL:
        return f"[^{re.escape(chr(value))}]"
    return "[" + "".join(written(kind, inner) for kind, inner in value) + "]"


def written(kind: Any, value: Any) -> str:
    if kind is codes.NEGATE:
        return "^"
    if kind is codes.LITERAL:
        return re.escape(chr(value))
    if kind is codes.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    return CATEGORIES[value]
