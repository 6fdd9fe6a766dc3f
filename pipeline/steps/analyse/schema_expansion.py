"""A JSON Schema checked against what is supported, with its references replaced by what they name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queuemgr import BadInput

DEEPEST, MOST_SCHEMAS, MOST_VALUES, LONGEST_PATTERN, LONGEST_WORDS = 10, 400, 200, 200, 2_000
"""Levels of schemas in each other, schemas in all, values of an `enum`, characters of a pattern, and of a
description."""

WORDS = frozenset({"title", "description", "$comment", "format", "$schema"})
NUMBERS = frozenset({
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems",
    "maxItems", "minProperties", "maxProperties",
})  # fmt: skip
LISTS = frozenset({"anyOf", "oneOf", "allOf"})
LEFT_OUT = frozenset(
    {"$defs", "definitions", "$schema", "$id", "$comment", "default", "examples", "deprecated"}
)
KNOWN = (
    WORDS | NUMBERS | LISTS | LEFT_OUT
    | {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "pattern", "$ref",
       "uniqueItems"}
)  # fmt: skip
TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})


def expanded(given: object) -> dict[str, Any]:
    """Raises `BadInput` for a keyword that is not supported, a reference that leads nowhere or to itself, and
    what is too deep or too large."""
    if not isinstance(given, dict):
        raise BadInput("the schema is not a JSON object")
    return _Expansion(given).of(given, "the schema", ())


class _Expansion:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root, self._left = root, MOST_SCHEMAS

    def of(self, given: object, where: str, through: tuple[str, ...], depth: int = DEEPEST) -> dict[str, Any]:
        """`through`: the references that led here."""
        self._left -= 1
        if depth == 0 or self._left < 0:
            raise BadInput(f"the schema is deeper than {DEEPEST} levels or has over {MOST_SCHEMAS} parts")
        if not isinstance(given, dict):
            raise BadInput(f"{where} is not a JSON object")
        if unknown := sorted(given.keys() - KNOWN):
            raise BadInput(f"{where}: {str(unknown[0])[:40]!r} is not supported")
        if "$ref" in given:
            return self._named(given, where, through, depth)
        return {
            name: self._part(name, value, where, through, depth)
            for name, value in given.items()
            if name not in LEFT_OUT
        }

    def _named(
        self, given: Mapping[str, Any], where: str, through: tuple[str, ...], depth: int
    ) -> dict[str, Any]:
        name = given["$ref"]
        if not isinstance(name, str) or name in through:
            raise BadInput(f"{where}: a schema may not refer to itself")
        root, _, place = name[:200].partition("/")
        group, _, key = place.partition("/")
        defined = self._root.get(group)
        if root != "#" or group not in ("$defs", "definitions") or not isinstance(defined, dict):
            raise BadInput(f'{where}: "$ref" must be like "#/$defs/name"')
        if key not in defined:
            raise BadInput(f"{where}: {name[:80]!r} is not defined")
        found = self.of(defined[key], name[:80], (*through, name), depth - 1)
        own = self.of({k: v for k, v in given.items() if k != "$ref"}, where, through, depth)
        return {**found, **own}

    def _part(self, name: str, value: Any, where: str, through: tuple[str, ...], depth: int) -> Any:
        here = f"{where}, {name}"
        if name in LISTS:
            if not isinstance(value, list) or not value:
                raise BadInput(f"{here} is not a list of schemas")
            return [self.of(each, here, through, depth - 1) for each in value]
        if name == "properties":
            return self._properties(value, here, through, depth)
        if name == "items" or (name == "additionalProperties" and not isinstance(value, bool)):
            return self.of(value, here, through, depth - 1)
        _check(name, value, here)
        return value

    def _properties(self, value: Any, here: str, through: tuple[str, ...], depth: int) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise BadInput(f"{here} is not a JSON object")
        for key in value:
            if not key.strip() or len(key) > 60 or not key.isprintable():
                raise BadInput(f"{here}: names have 1 to 60 printable characters")
        return {key: self.of(each, f"{here}, {key}", through, depth - 1) for key, each in value.items()}


def _check(name: str, value: Any, here: str) -> None:
    """What a keyword may have that holds no schema."""
    if name == "type":
        said = [value] if isinstance(value, str) else value
        if not isinstance(said, list) or not said or not all(isinstance(t, str) and t in TYPES for t in said):
            raise BadInput(f"{here} must be of {', '.join(sorted(TYPES))}")
    elif name in WORDS and not (isinstance(value, str) and len(value) <= LONGEST_WORDS):
        raise BadInput(f"{here} must be a text of at most {LONGEST_WORDS:,} characters")
    elif name == "pattern" and not (isinstance(value, str) and len(value) <= LONGEST_PATTERN):
        raise BadInput(f"{here} must be a text of at most {LONGEST_PATTERN} characters")
    elif name in NUMBERS and not _is_number(value):
        raise BadInput(f"{here} must be a number")
    elif name in ("required", "enum"):
        if not isinstance(value, list) or len(value) > MOST_VALUES:
            raise BadInput(f"{here} must be a list of at most {MOST_VALUES} values")
        for each in value:
            _check_value(each, here)
    elif name == "const":
        _check_value(value, here)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53


def _check_value(value: object, here: str) -> None:
    plain = value is None or isinstance(value, bool) or _is_number(value)
    if not (plain or (isinstance(value, str) and len(value) <= LONGEST_WORDS)):
        raise BadInput(f"{here}: values are texts, numbers, true, false or null")
