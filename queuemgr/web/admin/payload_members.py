"""The members of a payload, read from the schema of the model that its flow declares.

Whatever a model may be (recursive, generic, of unions, with types that have no schema), this says what its
members are, or in a sentence why it cannot: then the payload is edited as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from queuemgr.base.raised import type_name
from queuemgr.flows.callbacks import CallbackFailed
from queuemgr.flows.flow import Flow
from queuemgr.operations import remote_work

KINDS: Mapping[str, str] = {
    "string": "a text", "integer": "a whole number", "number": "a number", "boolean": "yes or no",
    "array": "a list, as JSON", "object": "an object, as JSON",
}  # fmt: skip

MOST_REFERENCES = 20
"""That lead from one to the next."""

Schema = Mapping[str, Any]
EMPTY: Schema = {}


@dataclass(frozen=True)
class Member:
    """A member of a payload: its name, JSON type (empty: any), whether it must be there, its choices, and its
    default as JSON."""

    name: str
    kind: str
    required: bool
    choices: tuple[Any, ...] = ()
    default: str = ""

    @property
    def help_text(self) -> str:
        what = KINDS.get(self.kind, "any JSON")
        left_out = f" Empty: {self.default}." if self.default and not self.required else ""
        return f"{what[0].upper()}{what[1:]}.{left_out}{' Required.' if self.required else ''}"


class Members(NamedTuple):
    """What its flow declares; where `found` is None, `why_not` is a sentence, if the flow declares any."""

    found: list[Member] | None = None
    why_not: str = ""


def members_of(flow: Flow) -> Members:
    try:
        model = remote_work.payload_members(flow)
    except CallbackFailed:
        return Members(why_not="The types of its payloads cannot be read: see the failures of its callbacks.")
    return Members() if model is None else members_in(model)


def members_in(model: type[BaseModel]) -> Members:
    try:
        schema = model.model_json_schema(schema_generator=_Quiet)
        return _read(schema)
    except Exception as error:  # of the types of an application, which may have schemas of their own
        return Members(why_not=f"The type of its payloads has no JSON schema ({type_name(error)}).")


class _Quiet(GenerateJsonSchema):
    """Warns of nothing: a default that is no JSON is left out."""

    def emit_warning(self, kind: Any, detail: str) -> None:
        pass


def _read(schema: Schema) -> Members:
    named = schema.get("$defs", EMPTY)
    top = _followed(schema, named)
    properties = top.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return Members(why_not="Its payloads are of a type that has no members of its own.")
    required = top.get("required", ())
    return Members([_member(name, stated, named, name in required) for name, stated in properties.items()])


def _followed(schema: Any, named: Schema) -> Schema:
    """Where its references lead."""
    for _ in range(MOST_REFERENCES):
        if not isinstance(schema, Mapping):
            break
        if "$ref" in schema:
            schema = named.get(str(schema["$ref"]).rpartition("/")[2])
        elif len(alone := schema.get("allOf", ())) == 1:
            schema = alone[0]
        else:
            return schema
    return EMPTY


def _member(name: str, stated: Any, named: Schema, required: bool) -> Member:
    outer: Schema = stated if isinstance(stated, Mapping) else EMPTY
    resolved = _followed(outer, named)
    options = [_followed(option, named) for option in resolved.get("anyOf", [resolved])]
    options = [option for option in options if option.get("type") != "null"]
    kind = options[0] if len(options) == 1 else EMPTY
    choices = kind.get("enum", (kind["const"],) if "const" in kind else ())
    default = outer.get("default")
    return Member(
        name,
        _type(kind),
        required,
        tuple(choices) if all(isinstance(one, str | int | float) for one in choices) else (),
        json.dumps(default) if default not in (None, "", {}, []) else "",
    )


def _type(kind: Schema) -> str:
    stated = kind.get("type", "")
    return stated if isinstance(stated, str) and stated in KINDS else ""
