"""A model's endpoint, and the dialect of the OpenAI protocol it accepts, learned from its refusals.

Endpoints differ: many refuse a JSON schema, some any `response_format`; newer models require
`max_completion_tokens` instead of `max_tokens`, and no `temperature`. Each refusal costs a request,
so a dialect is kept for the life of the process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from queuemgr.steptools import process_state


@dataclass(frozen=True)
class Endpoint:
    """`base_url` ends before `/chat/completions`; `timeout` in seconds is for the whole answer, so
    that a trickling one ends too. The key appears in no repr and no error."""

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    timeout: float = 180.0


FORMATS = ("json_schema", "json_object", "none")
"""The ways to ask for JSON, the strictest first."""

ABOUT_FORMAT = re.compile(r"response.?format|json.?schema|json.?object|structured.?output", re.I)
ABOUT_LIMIT = re.compile(r"max_completion_tokens")
ABOUT_TEMPERATURE = re.compile(r"temperature", re.I)


@dataclass(frozen=True)
class Dialect:
    """The form of requests that an endpoint accepts."""

    response_format: str = FORMATS[0]
    limit_name: str = "max_tokens"
    temperature: bool = True

    def after(self, refusal: str) -> Dialect | None:
        """The dialect to try after this refusal; None if the refusal was about something else."""
        at = FORMATS.index(self.response_format)
        if ABOUT_FORMAT.search(refusal) and at + 1 < len(FORMATS):
            return replace(self, response_format=FORMATS[at + 1])
        if ABOUT_LIMIT.search(refusal) and self.limit_name == "max_tokens":
            return replace(self, limit_name="max_completion_tokens")
        if ABOUT_TEMPERATURE.search(refusal) and self.temperature:
            return replace(self, temperature=False)
        return None

    def limits(self, max_tokens: int) -> dict[str, Any]:
        """The maximum length of the answer, and temperature 0 unless that is refused."""
        return {self.limit_name: max_tokens, **({"temperature": 0} if self.temperature else {})}

    def format(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The `response_format` for a JSON answer, with this schema if schemas are accepted."""
        if self.response_format == "none":
            return {}
        if self.response_format == "json_schema":
            return {"response_format": {"type": "json_schema", "json_schema": dict(schema)}}
        return {"response_format": {"type": "json_object"}}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def dialect_from_json(stored: object) -> Dialect | None:
    """The dialect that `to_json` stored; None for anything else."""
    try:
        found = Dialect(**stored) if isinstance(stored, dict) else None
    except TypeError:
        return None
    return found if found is not None and found.response_format in FORMATS else None


_dialects: dict[tuple[str, str], Dialect] = {}


def dialect_for(endpoint: Endpoint) -> Dialect:
    """The dialect this process knows for this model; at first the full one."""
    return _dialects.get((endpoint.base_url, endpoint.model), Dialect())


def save_dialect(endpoint: Endpoint, dialect: Dialect) -> None:
    _dialects[endpoint.base_url, endpoint.model] = dialect


def reset_dialects() -> None:
    """Start again with the full dialect for every endpoint."""
    _dialects.clear()


process_state.register(reset_dialects)
