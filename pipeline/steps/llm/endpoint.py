"""Where a model is, and what its endpoint takes of the OpenAI protocol, learnt from its refusals.

Endpoints differ: many refuse a JSON schema, some any `response_format`; newer models want
`max_completion_tokens` for `max_tokens` and no `temperature`. Each refusal costs a request, so what
was learnt is remembered for the life of the process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Endpoint:
    """Where the model is. `base_url` ends before `/chat/completions`; `timeout` in seconds is for
    the whole answer, so that one dripping bytes ends too. The key shows in no repr and no error.
    """

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    timeout: float = 180.0
    json_mode: bool = True


FORMATS = ("json_schema", "json_object", "none")
"""The ways to ask for JSON, the strictest first."""

ABOUT_FORMAT = re.compile(r"response.?format|json.?schema|json.?object|structured.?output", re.I)
ABOUT_LIMIT = re.compile(r"max_completion_tokens")
ABOUT_TEMPERATURE = re.compile(r"temperature", re.I)


@dataclass(frozen=True)
class Dialect:
    """How requests to one endpoint are written."""

    response_format: str = FORMATS[0]
    limit_name: str = "max_tokens"
    temperature: bool = True

    def after(self, refusal: str) -> Dialect | None:
        """How to ask after a refusal in these words; None when it was about something else."""
        at = FORMATS.index(self.response_format)
        if ABOUT_FORMAT.search(refusal) and at + 1 < len(FORMATS):
            return replace(self, response_format=FORMATS[at + 1])
        if ABOUT_LIMIT.search(refusal) and self.limit_name == "max_tokens":
            return replace(self, limit_name="max_completion_tokens")
        if ABOUT_TEMPERATURE.search(refusal) and self.temperature:
            return replace(self, temperature=False)
        return None

    def limits(self, max_tokens: int) -> dict[str, Any]:
        """The length of the answer, and temperature 0 unless that is refused."""
        return {self.limit_name: max_tokens, **({"temperature": 0} if self.temperature else {})}

    def format(self, schema: Mapping[str, Any] | None) -> dict[str, Any]:
        """The `response_format` for an answer in JSON, following this schema where that is taken."""
        if self.response_format == "none":
            return {}
        if self.response_format == "json_schema" and schema is not None:
            return {"response_format": {"type": "json_schema", "json_schema": dict(schema)}}
        return {"response_format": {"type": "json_object"}}

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def dialect_of(plain: object) -> Dialect | None:
    """A dialect out of what `plain` gave, None for anything else."""
    try:
        found = Dialect(**plain) if isinstance(plain, dict) else None
    except TypeError:
        return None
    return found if found is not None and found.response_format in FORMATS else None


_learnt: dict[tuple[str, str], Dialect] = {}


def known(endpoint: Endpoint) -> Dialect:
    """The dialect this process has learnt for this model, the fullest one before."""
    return _learnt.get((endpoint.base_url, endpoint.model), Dialect())


def remember(endpoint: Endpoint, dialect: Dialect) -> None:
    _learnt[endpoint.base_url, endpoint.model] = dialect


def forget() -> None:
    """Ask every endpoint in full again."""
    _learnt.clear()
