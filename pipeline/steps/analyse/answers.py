"""The schema of a model's answer, and parsing it from what the model wrote. Pure."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from pipeline.steps.extract.extract import clean

LONGEST, MOST = 8000, 30
"""Characters of a text, and texts in a list. More is refused before it is cleaned, which takes time."""


def storable(value: object) -> object:
    """Remove NUL and lone surrogates, which models send and databases refuse."""
    if not isinstance(value, str):
        return value
    if len(value) > LONGEST:
        raise ValueError(f"longer than {LONGEST:,} characters")
    return clean(value).text


def bounded(value: object) -> object:
    if isinstance(value, list) and len(value) > MOST:
        raise ValueError(f"more than {MOST} texts")
    return value


Text = Annotated[
    str, BeforeValidator(storable), StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST)
]
Texts = Annotated[tuple[Text, ...], Field(max_length=MOST), BeforeValidator(bounded)]


class Analysis(BaseModel):
    """The result of a model and of the local analyser. Lists may be empty, texts may not."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    title: Text
    summary: Text
    keywords: Texts
    contributions: Texts


TEXTS = {"type": "array", "items": {"type": "string"}}

ANALYSIS_SCHEMA: dict[str, Any] = {
    "name": "analysis",
    "strict": True,
    "schema": {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "summary": {"type": "string"},
            "keywords": TEXTS,
            "contributions": TEXTS,
        },
        "required": ["title", "summary", "keywords", "contributions"],
        "additionalProperties": False,
    },
}
"""`Analysis` for `response_format`. Written out, since strict endpoints accept neither lengths nor
defaults in a schema; the validation of the answer checks those."""


class BadAnalysis(Exception):
    """An invalid answer; `reasons` name fields and errors, never content, which only `answer` has."""

    def __init__(self, reasons: str, answer: str) -> None:
        super().__init__(reasons)
        self.reasons, self.answer = reasons, answer


def parsed(answer: str) -> Analysis:
    """The analysis in a model's answer, which may be in a code fence or follow its reasoning.

    Raises `BadAnalysis`.
    """
    found = json_object(without_thinking(answer))
    if found is None:
        raise BadAnalysis("it is not a JSON object", answer)
    try:
        return Analysis.model_validate(found)
    except ValidationError as error:
        raise BadAnalysis(reasons_of(error), answer) from None


def plain(answer: str) -> str:
    """Notes on a chunk, without the model's reasoning. Raises `BadAnalysis` if nothing is left."""
    notes = clean(without_thinking(answer)).text.strip()
    if not notes:
        raise BadAnalysis("it is empty", answer)
    return notes


def without_thinking(answer: str) -> str:
    """Without what stands between `<think>` and `</think>`."""
    kept: list[str] = []
    at = 0
    while (start := answer.find("<think>", at)) >= 0 and (end := answer.find("</think>", start)) >= 0:
        kept.append(answer[at:start])
        at = end + len("</think>")
    return "".join([*kept, answer[at:]])


def json_object(text: str) -> Any:
    """The outermost object, or None."""
    start, end = text.find("{"), text.rfind("}")
    try:
        return json.loads(text[start : end + 1], strict=False)
    except (ValueError, RecursionError):
        return None


def reasons_of(error: ValidationError) -> str:
    """Which fields are invalid and why, without their values, which are the paper's."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'the answer'}: {fault['msg']}" for fault in found[:5]
    )
