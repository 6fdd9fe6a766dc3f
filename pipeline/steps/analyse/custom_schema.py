"""A JSON Schema of what to extract from a paper, given by a person, and answers checked against it. Pure.

A schema may come from the network: it has at most `LONGEST` characters, is not deeper than `DEEPEST`, refers
to nothing outside, and its patterns are matched in linear time (jsonschema-rs has an engine for that).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jsonschema_rs

from pipeline.steps.analyse.schema_expansion import expanded
from pipeline.steps.extract.extract import clean
from queuemgr import BadInput

LONGEST = 16_384
"""Characters of a schema, as compact JSON with its references replaced."""

DEEPEST_ANSWER, LONGEST_ANSWER, LONGEST_TEXT = 16, 100_000, 8_000
"""Levels and characters of what is extracted, and characters of one text in it."""

MOST_PROBLEMS = 5

LINEAR = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)


@dataclass(frozen=True)
class CustomSchema:
    """`text` is compact JSON, `digest` its SHA-256. The order of its fields is that of columns."""

    text: str

    @cached_property
    def schema(self) -> dict[str, Any]:
        return dict(json.loads(self.text))

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of what is extracted."""
        return tuple(self.schema["properties"])

    @property
    def tokens(self) -> int:
        """What it may take in a request, in the instructions and as the form of the answer."""
        return 2 * len(self.text) // 3

    @cached_property
    def _validator(self) -> jsonschema_rs.Draft202012Validator:
        return validator_of(self.schema)

    def problems(self, value: object) -> list[tuple[str, str]]:
        """The field ("" for the whole) and the fault of each place that does not fit, without its value."""
        found = []
        for error in self._validator.iter_errors(value):
            path = list(map(str, error.instance_path))
            found.append((path[0] if path else "", f"{'.'.join(path) or 'extracted'}: {error.message}"))
        return found


def validator_of(schema: Mapping[str, Any]) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        dict(schema), mask="the value", pattern_options=LINEAR, offline=True, validate_formats=False
    )


def read_schema(given: object) -> CustomSchema:
    """The schema, of JSON text or of what was read of it. Raises `BadInput` with what is wrong."""
    if isinstance(given, str | bytes):
        given = _parsed(given)
    schema = expanded(given)
    if schema.get("type") != "object" or not schema.get("properties"):
        raise BadInput('the schema must be of "type": "object" with "properties"')
    text = clean(json.dumps(schema, ensure_ascii=False, separators=(",", ":"))).text
    if len(text) > LONGEST:
        raise BadInput(f"the schema has more than {LONGEST:,} characters")
    try:
        validator_of(schema)
    except jsonschema_rs.ValidationError as error:
        place = ", ".join(map(str, error.instance_path))
        raise BadInput(f"the schema, {place}: {_fault(error)}") from None
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise BadInput(f"the schema is not valid: {clean(str(error)).text[:300]}") from None
    return CustomSchema(text)


def _fault(error: jsonschema_rs.ValidationError) -> str:
    if error.instance_path and error.instance_path[-1] == "pattern":
        return (
            "not a regular expression, or too large a one; look-around and references back are not supported"
        )
    return clean(error.message).text[:200]


def _parsed(text: str | bytes) -> object:
    if len(text) > 4 * LONGEST:
        raise BadInput(f"the schema has more than {LONGEST:,} characters")
    try:
        return json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"the schema is not JSON: {error}") from None
    except (ValueError, RecursionError):
        raise BadInput("the schema is nested too deeply, or has a number of thousands of digits") from None


def without_nulls(value: object, schema: Mapping[str, Any]) -> object:
    """What models send as null for a field that may be missing is left out, where null is not allowed."""
    if isinstance(value, dict) and isinstance(schema.get("properties"), dict):
        known, required = schema["properties"], schema.get("required", ())
        return {
            name: without_nulls(each, known.get(name, {}))
            for name, each in value.items()
            if each is not None or name in required or name not in known
        }
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [without_nulls(each, schema["items"]) for each in value]
    return value


def storable_value(value: object, depth: int = DEEPEST_ANSWER) -> Any:
    """The same without what databases refuse. Raises `ValueError` for what is too deep, long or large."""
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise ValueError(f"a text is longer than {LONGEST_TEXT:,} characters")
        return clean(value).text
    if isinstance(value, dict | list):
        if depth == 0:
            raise ValueError(f"deeper than {DEEPEST_ANSWER} levels")
        if len(value) > LONGEST_TEXT:
            raise ValueError(f"more than {LONGEST_TEXT:,} entries")
        if isinstance(value, list):
            return [storable_value(each, depth - 1) for each in value]
        return {clean(name[:200]).text: storable_value(each, depth - 1) for name, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is none")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("a number of more than 64 bits")
    return value


@dataclass(frozen=True)
class Extracted:
    """What fits the schema, and in words what did not."""

    values: dict[str, Any]
    problems: tuple[str, ...] = ()


def extracted(given: object, schema: CustomSchema) -> Extracted:
    """Of what a model says, the fields that fit. A field with a fault is left out."""
    if not isinstance(given, dict):
        return Extracted({}, ("extracted: not an object",))
    if sum(map(len, _texts(given))) > LONGEST_ANSWER:
        return Extracted({}, (f"extracted: longer than {LONGEST_ANSWER:,} characters",))
    try:
        values = without_nulls(storable_value(given), schema.schema)
    except ValueError as error:
        return Extracted({}, (f"extracted: {error}",))
    assert isinstance(values, dict)
    found = schema.problems(values)
    faulty = {field for field, _ in found}
    fits = {name: value for name, value in values.items() if name in schema.fields and name not in faulty}
    return Extracted(fits, tuple(problem for _, problem in found[:MOST_PROBLEMS]))


def _texts(value: object) -> Iterator[str]:
    """Every text and number in it, as text."""
    waiting: list[object] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield from map(str, each)
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
        else:
            yield each if isinstance(each, str) else "0"


def strict_form(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema as strict endpoints take it: every field named as required, null for one that may be
    missing, without lengths, ranges and patterns, which are checked here. None where it cannot be said so."""
    if options := schema.get("anyOf") or schema.get("oneOf"):
        forms = [strict_form(option) for option in options]
        return None if None in forms else {"anyOf": forms}
    form: dict[str, Any] = {name: schema[name] for name in ("type", "enum", "description") if name in schema}
    if "const" in schema:
        form["enum"] = [schema["const"]]
    if not form.keys() & {"type", "enum"} or "allOf" in schema:
        return None
    if _has_type(schema, "object"):
        return _strict_object(form, schema)
    if _has_type(schema, "array"):
        item = strict_form(schema.get("items", {}))
        return None if item is None else {**form, "items": item}
    return form


def _strict_object(form: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any] | None:
    known, required = schema.get("properties"), schema.get("required", ())
    if not known:
        return None
    made = {name: strict_form(each) for name, each in known.items()}
    if None in made.values():
        return None
    properties = {
        name: each if name in required else {"anyOf": [each, {"type": "null"}]} for name, each in made.items()
    }
    return {**form, "properties": properties, "required": list(made), "additionalProperties": False}


def _has_type(schema: Mapping[str, Any], name: str) -> bool:
    said: str | Sequence[str] = schema.get("type", "")
    return name == said if isinstance(said, str) else name in said
