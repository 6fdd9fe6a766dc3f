"""A person's schema is bounded before it is used, and what a model answers to it is checked."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pipeline.steps.analyse.analyse import AnalyseOptions, Analysis, analyse
from pipeline.steps.analyse.custom_schema import LONGEST, CustomSchema, extracted, read_schema, strict_form
from pipeline.steps.llm.endpoint import Endpoint
from queuemgr import NEVER, BadInput
from tests.fake_llm import GOOD, FakeLlm
from tests.papers import PAPER

SCHEMA = {
    "title": "Trials",
    "type": "object",
    "properties": {
        "canals": {"type": "integer", "minimum": 1},
        "country": {"type": "string", "pattern": "^(a+)+$|^[A-Z]"},
        "seasons": {"type": "array", "items": {"$ref": "#/$defs/season"}, "maxItems": 3},
    },
    "required": ["canals"],
    "$defs": {"season": {"type": "object", "properties": {"year": {"type": "integer"}}}},
}
TRIALS = read_schema(json.dumps(SCHEMA))


def within(properties: Any, **others: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **others}


def ref(number: int) -> dict[str, str]:
    return {"$ref": f"#/$defs/d{number}"}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


REFUSED: dict[str, tuple[object, str]] = {
    "no JSON": ("{", "not JSON"),
    "no text": (b"\xff", "not JSON"),
    "deep brackets": ("[" * 60_000, "nested too deeply"),
    "a long number": ('{"a": ' + "9" * 5_000 + "}", "thousands of digits"),
    "too long": (json.dumps({"a": "b" * 5 * LONGEST}), "more than"),
    "long in all": (within({f"f{n}": {"description": "d" * 200} for n in range(99)}), "more than"),
    "a list": ([], "not a JSON object"),
    "no fields": ({"type": "object"}, '"properties"'),
    "a text": ({"type": "string"}, '"properties"'),
    "deep": (within({"a": nested(20)}), "deeper than"),
    "many": (within({f"f{n}": {} for n in range(500)}), "parts"),
    "many by reference": (
        within(
            {"a": ref(0)},
            **{
                "$defs": {
                    f"d{n}": within({k: {"$ref": f"#/$defs/d{n + 1}"} for k in "abcdef"}) for n in range(9)
                }
            },
        ),
        "parts",
    ),
    "itself": (within({"a": {"$ref": "#"}}), '"#/\\$defs/name"'),
    "in a circle": (
        within({"a": {"$ref": "#/$defs/a"}}, **{"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}),
        "refer to itself",
    ),
    "elsewhere": (within({"a": {"$ref": "https://a.org/s.json"}}), '"\\$ref" must be'),
    "nowhere": (within({"a": {"$ref": "#/$defs/b"}}, **{"$defs": {}}), "not defined"),
    "no pattern": (within({"a": {"pattern": "("}}), "not a regular expression"),
    "look-around": (within({"a": {"pattern": "(?=a)b"}}), "look-around"),
    "a reference back": (within({"a": {"pattern": "(a)\\1"}}), "not supported"),
    "an exploding pattern": (within({"a": {"pattern": "a{900}{900}{900}"}}), "too large"),
    "a long pattern": (within({"a": {"pattern": "a" * 201}}), "at most 200"),
    "patterns of names": (within({}, patternProperties={"(a+)+$": {}}), "not supported"),
    "no number": (within({"a": {"minLength": -1}}), "minimum"),
    "no finite number": (within({"a": {"minimum": math.inf}}), "must be a number"),
    "a number of 4,000 digits": (within({"a": {"maximum": 10**4_000}}), "must be a number"),
    "no type": (within({"a": {"type": "date"}}), "must be of"),
    "values of values": (within({"a": {"enum": [[1]]}}), "values are texts"),
    "an empty name": (within({" ": {}}), "printable"),
    "an invisible name": (within({"a\u202eb": {}}), "printable"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_schema_that_cannot_be_used_is_refused_with_the_reason(what: str) -> None:
    given, reason = REFUSED[what]
    with pytest.raises(BadInput, match=reason):
        read_schema(given)


def test_a_schema_keeps_its_fields_in_their_order_and_is_known_by_its_digest() -> None:
    assert TRIALS.fields == ("canals", "country", "seasons")
    assert "$ref" not in TRIALS.text and "$defs" not in TRIALS.text
    again = read_schema(json.dumps(SCHEMA, indent=4).encode())
    assert (again, again.digest, len(again.digest)) == (TRIALS, TRIALS.digest, 64)
    assert read_schema(TRIALS.schema) == TRIALS


def test_a_pattern_from_outside_takes_linear_time() -> None:
    """`(a+)+$` takes Python's `re` for ever."""
    began = time.process_time()
    found = extracted({"canals": 1, "country": "a" * 7_000 + "!"}, TRIALS)
    assert found.values == {"canals": 1} and "country" in found.problems[0]
    assert time.process_time() - began < 5


GIVEN: dict[str, tuple[Any, dict[str, Any], str]] = {
    "right": ({"canals": 12, "seasons": [{"year": 2001}]}, {"canals": 12, "seasons": [{"year": 2001}]}, ""),
    "null for what may be missing": ({"canals": 12, "country": None}, {"canals": 12}, ""),
    "null in a list": ({"canals": 1, "seasons": [{"year": None}]}, {"canals": 1, "seasons": [{}]}, ""),
    "a text for a number": ({"canals": "12", "country": "Chad"}, {"country": "Chad"}, "canals: "),
    "one is missing": ({"country": "Chad"}, {"country": "Chad"}, "extracted: "),
    "others": ({"canals": 1, "x": {"y": [1]}}, {"canals": 1}, ""),
    "no object": (["canals"], {}, "extracted: not an object"),
    "none": (None, {}, "extracted: not an object"),
    "deep": ({"canals": 1, "seasons": json.loads("[" * 90 + "]" * 90)}, {}, "deeper than"),
    "long": ({"canals": 1, "x": ["a" * 7_000] * 99}, {}, "longer than"),
    "a long text": ({"canals": 1, "country": "A" * 9_000}, {}, "a text is longer"),
    "a million": ({"canals": 1, "seasons": [{}] * 1_000_000}, {}, "more than"),
    "not finite": ({"canals": math.nan}, {}, "a number that is none"),
    "too large a number": ({"canals": 2**70}, {}, "64 bits"),
    "characters no database stores": (
        {"canals": 1, "country": "C\x00h\ud800ad"},
        {"canals": 1, "country": "Ch\ufffdad"},
        "",
    ),
}


@pytest.mark.parametrize("what", GIVEN)
def test_of_an_answer_the_fields_that_fit_are_kept(what: str) -> None:
    given, kept, problem = GIVEN[what]
    found = extracted(given, TRIALS)
    assert found.values == kept
    assert problem in " ".join(found.problems) and bool(problem) == bool(found.problems)


def test_what_does_not_fit_is_named_and_not_quoted() -> None:
    found = extracted({"canals": "a secret", "country": "another secret"}, TRIALS)
    assert len(found.problems) == 2 and "secret" not in " ".join(found.problems)


def test_the_form_for_strict_endpoints_takes_what_the_schema_takes() -> None:
    form = strict_form(TRIALS.schema)
    assert form is not None and form["required"] == ["canals", "country", "seasons"]
    assert form["additionalProperties"] is False and "pattern" not in json.dumps(form)
    valid = Draft202012Validator(form)
    assert valid.is_valid({"canals": 1, "country": None, "seasons": [{"year": None}]})
    assert not valid.is_valid({"canals": 1, "country": 2, "seasons": None})
    assert strict_form(within({"a": {"description": "anything"}})) is None


# ---- asked of a model


@pytest.fixture
def model() -> Iterator[FakeLlm]:
    made = FakeLlm()
    yield made
    made.close()


EVIDENCE = {"field": "canals", "page": 2, "quote": "On twelve canals near"}
RIGHT = {**GOOD, "extracted": {"canals": 12}, "evidence": [EVIDENCE, {"field": "x"}, 7, EVIDENCE]}


def run(model: FakeLlm, *answers: object, schema: CustomSchema | None = TRIALS) -> Analysis:
    for answer in answers:
        model.say(answer)
    endpoint = Endpoint(model.base_url, "m-1", "sk-key", timeout=5)
    return analyse(PAPER, "", AnalyseOptions(endpoint=endpoint, schema=schema), NEVER).analysis


@pytest.mark.usefixtures("texts_are_read_in_this_process")
def test_a_model_is_asked_for_the_fields_with_evidence_which_is_looked_up(model: FakeLlm) -> None:
    found = run(model, RIGHT)
    assert found.extracted == {"canals": 12} and found.anomalies == ()
    (evidence,) = found.field_evidence.values()
    assert (evidence.verdict, evidence.page, evidence.said_page) == ("corrected", 1, 2)
    assert TRIALS.text in model.sent(1)
    form = model.requests[0]["response_format"]["json_schema"]
    assert form["strict"] is True and form["schema"]["properties"]["extracted"]["required"][0] == "canals"


@pytest.mark.usefixtures("texts_are_read_in_this_process")
@pytest.mark.parametrize("second", [{"canals": 12}, {"canals": "12"}, None], ids=["mended", "wrong", "none"])
def test_an_answer_that_does_not_fit_is_sent_back_once_and_then_an_anomaly(
    model: FakeLlm, second: object
) -> None:
    found = run(model, {**RIGHT, "extracted": {"canals": "12"}}, {**RIGHT, "extracted": second})
    assert len(model.requests) == 2 and "canals: the value is not of type" in model.sent(2)
    fits = second == {"canals": 12}
    assert found.extracted == ({"canals": 12} if fits else {})
    assert bool(found.anomalies) != fits and found.summary


@pytest.mark.usefixtures("texts_are_read_in_this_process")
def test_without_a_schema_nothing_is_extracted_whatever_a_model_adds(model: FakeLlm) -> None:
    found = run(model, RIGHT, schema=None)
    assert (found.extracted, found.field_evidence) == ({}, {})
    assert "JSON Schema" not in model.sent(1)
