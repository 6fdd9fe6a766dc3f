"""The schema of a model's answer, and parsing it from what the model wrote. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from pipeline.steps.analyse.analysis import KINDS, MOST, Text, Texts, bounded, with_evidence
from pipeline.steps.analyse.custom_schema import CustomSchema, extracted, strict_form
from pipeline.steps.analyse.quotes import bounded_quote
from pipeline.steps.extract.extract import clean

MOST_FIELDS = 200
"""Entries of evidence for fields that are looked at."""

PAGE_NUMBER = re.compile(r"\d{1,9}")


def short(value: object) -> object:
    """The beginning of a quote, without what no database stores; "" for what is no text."""
    return clean(bounded_quote(value)).text.strip() if isinstance(value, str) else ""


def page_number(value: object) -> object:
    """A page as models write it: 3, 3.0, "3", "p. 3", "[PAGE 3]"; None for what is none."""
    if isinstance(value, str):
        found = PAGE_NUMBER.search(value[:100])
        return int(found[0]) if found else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 < value < 10**9 and value == value // 1 else None


class StatedEvidence(BaseModel):
    """Where the paper says something, according to the model."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    page: Annotated[int | None, BeforeValidator(page_number)] = None
    quote: Annotated[str, BeforeValidator(short)] = ""


class StatedClaim(StatedEvidence):
    """A claim with the evidence that the model names for it. A bare text has none."""

    text: Text


StatedItem = Annotated[StatedClaim, BeforeValidator(with_evidence)]
Stated = Annotated[tuple[StatedItem, ...], Field(max_length=MOST), BeforeValidator(bounded)]


class Answer(BaseModel):
    """What a model says of a paper. Lists may be empty or missing, texts may not."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    title: Text
    summary: Text
    keywords: Texts
    contributions: Stated = ()
    methods: Stated = ()
    data: Stated = ()
    results: Stated = ()
    limitations: Stated = ()
    extracted: Annotated[dict[str, Any], BeforeValidator(lambda _: {})] = {}
    field_evidence: Annotated[dict[str, StatedEvidence], BeforeValidator(lambda _: {})] = {}
    anomalies: Annotated[tuple[str, ...], BeforeValidator(lambda _: ())] = ()


TEXTS = {"type": "array", "items": {"type": "string"}}
CLAIMS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"text": {"type": "string"}, "page": {"type": "integer"}, "quote": {"type": "string"}},
        "required": ["text", "page", "quote"],
        "additionalProperties": False,
    },
}

FIELD_EVIDENCE = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"field": {"type": "string"}, "page": {"type": "integer"}, "quote": {"type": "string"}},
        "required": ["field", "page", "quote"],
        "additionalProperties": False,
    },
}
PROPERTIES: Mapping[str, Any] = {
    "title": {"type": "string"},
    "summary": {"type": "string"},
    "keywords": TEXTS,
    **dict.fromkeys(KINDS, CLAIMS),
}


def answer_form(schema: CustomSchema | None = None) -> dict[str, Any]:
    """`Answer` for `response_format`. Written out, since strict endpoints accept neither lengths nor
    defaults in a schema; the validation of the answer checks those. A person's schema that these do not
    accept is sent as it is, as a wish."""
    properties, strict = dict(PROPERTIES), True
    if schema is not None:
        form = strict_form(schema.schema)
        strict = form is not None
        properties |= {"extracted": form or schema.schema, "evidence": FIELD_EVIDENCE}
    return {
        "name": "analysis",
        "strict": strict,
        "schema": {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
    }


class BadAnalysis(Exception):
    """An invalid answer; `reasons` name fields and errors, never content, which only `answer` has."""

    def __init__(self, reasons: str, answer: str) -> None:
        super().__init__(reasons)
        self.reasons, self.answer = reasons, answer


def parsed(answer: str, schema: CustomSchema | None = None) -> Answer:
    """What a model's answer says, which may be in a code fence or follow its reasoning; with the fields of
    the schema, if there is one.

    Raises `BadAnalysis`.
    """
    found = _object_in(answer)
    read = _validated(found, answer)
    fields, problems = _fields(found, schema)
    if problems:
        raise BadAnalysis("; ".join(problems), answer)
    return read.model_copy(update=fields)


def salvaged(answer: str, schema: CustomSchema | None = None) -> Answer:
    """What is right in an answer that was wrong twice; the rest is named among its anomalies.

    Raises `BadAnalysis` if it has no title or summary.
    """
    found, anomalies = dict(_object_in(answer)), list[str]()
    for name, kind in _LISTS.items():
        found[name], wrong = _usable(found.get(name), kind)
        anomalies += [f"{name}: {wrong}"] if wrong else []
    fields, problems = _fields(found, schema)
    return _validated(found, answer).model_copy(update={**fields, "anomalies": (*anomalies, *problems)})


def _fields(found: Mapping[str, Any], schema: CustomSchema | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of the schema with the evidence of each, and what does not fit."""
    if schema is None:
        return {}, ()
    fits = extracted(found.get("extracted"), schema)
    listed = found.get("evidence")
    stated = {
        str(each.get("field")): StatedEvidence.model_validate(each)
        for each in reversed(listed[:MOST_FIELDS] if isinstance(listed, list) else [])
        if isinstance(each, dict)
    }
    evidence = {name: stated.get(name, StatedEvidence()) for name in fits.values}
    return {"extracted": fits.values, "field_evidence": evidence}, fits.problems


_LISTS: Mapping[str, TypeAdapter[Any]] = {
    "keywords": TypeAdapter(Text),
    **dict.fromkeys(KINDS, TypeAdapter(StatedItem)),
}


def _usable(value: object, kind: TypeAdapter[Any]) -> tuple[list[Any], str]:
    """The first entries of a list that are right, and in words what was wrong."""
    if value is None:
        return [], ""
    if not isinstance(value, list):
        return list(_right([value], kind)), "no list"
    right = list(_right(value[:MOST], kind))
    wrong = len(value) - len(right)
    return right, f"{wrong:,} of {len(value):,} entries left out" if wrong else ""


def _right(values: list[Any], kind: TypeAdapter[Any]) -> Iterator[Any]:
    for value in values:
        try:
            yield kind.validate_python(value)
        except ValidationError:
            continue


def _object_in(answer: str) -> Mapping[str, Any]:
    found = json_object(without_thinking(answer))
    if not isinstance(found, dict):
        raise BadAnalysis("it is not a JSON object", answer)
    return found


def _validated(found: Mapping[str, Any], answer: str) -> Answer:
    try:
        return Answer.model_validate(found)
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
