"""Analysis by a model (a fake server): which requests are sent, how many, and the errors."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.steps.analyse.analyse import (
    PROMPT_VERSION,
    Analysed,
    AnalyseOptions,
    Analysis,
    KnownLimits,
    Reschedule,
    analyse,
)
from pipeline.steps.analyse.analysis import KINDS
from pipeline.steps.analyse.prompts import prompt_hash
from pipeline.steps.llm import endpoint as endpoints
from pipeline.steps.llm.endpoint import Dialect, Endpoint
from queuemgr.base.errors import StepFailed
from queuemgr.flows.abort_signal import NEVER
from tests.fake_llm import GOOD, FakeLlm
from tests.papers import PAPER, SECRET

pytestmark = pytest.mark.usefixtures("texts_are_read_in_this_process")


@pytest.fixture
def model() -> Iterator[FakeLlm]:
    made = FakeLlm()
    yield made
    made.close()


def by(model: FakeLlm, **changes: Any) -> AnalyseOptions:
    endpoint = Endpoint(model.base_url, "m-1", "sk-key", timeout=5)
    return AnalyseOptions(endpoint=endpoint, **changes)


def run(options: AnalyseOptions, text: str = PAPER) -> Analysed:
    return analyse(text, "", options, NEVER)


def failure(options: AnalyseOptions) -> StepFailed:
    with pytest.raises(StepFailed) as caught:
        run(options)
    assert SECRET not in caught.value.message
    return caught.value


def used(options: AnalyseOptions) -> tuple[int, int, int]:
    tally = options.usage
    return tally.requests, tally.prompt_tokens, tally.completion_tokens


def test_one_good_answer_costs_one_request(model: FakeLlm) -> None:
    model.say(GOOD)
    options = by(model)
    assert run(options) == Analysed(Analysis.model_validate(GOOD), "model:m-1", PROMPT_VERSION, prompt_hash())
    assert used(options) == (1, 10, 5)
    assert "[1] B. Baker" not in model.sent(1)
    assert SECRET in model.sent(1)
    assert model.requests[0]["temperature"] == 0


@pytest.mark.parametrize("wrapped", ["```json\n{}\n```", "Here it is:\n{}", "<think>{{maybe}}</think>\n{}"])
def test_an_answer_is_found_in_its_wrapping(model: FakeLlm, wrapped: str) -> None:
    model.say(wrapped.replace("{{maybe}}", "{maybe}").replace("{}", json.dumps(GOOD)))
    run(by(model))
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "bad", ["I cannot say.", {**GOOD, "summary": ""}, {"title": "t"}, {**GOOD, "keywords": "one"}, "[]"]
)
def test_an_answer_off_the_schema_is_sent_back_once(model: FakeLlm, bad: object) -> None:
    model.say(bad)
    model.say(GOOD)
    options = by(model)
    run(options)
    assert used(options) == (2, 20, 10), "the useless answer was paid for too"
    assert "That does not fit" in model.sent(2)


def test_a_second_bad_answer_is_the_last(model: FakeLlm) -> None:
    model.say({**GOOD, "summary": 7, "note": SECRET})
    model.say({**GOOD, "summary": 7, "note": SECRET})
    options = by(model)
    error = failure(options)
    assert (error.kind, "summary" in error.message) == ("bad_answer", True)
    assert used(options) == (2, 20, 10)


def test_a_cut_off_answer_is_asked_for_again_with_more_room(model: FakeLlm) -> None:
    """The retry changes the request."""
    model.say(json.dumps(GOOD), "length")
    model.say(GOOD)
    run(by(model, max_tokens=100))
    assert [request["max_tokens"] for request in model.requests] == [100, 200]


def test_an_answer_cut_off_twice_is_final(model: FakeLlm) -> None:
    """Not retried endlessly at full cost; the error says that it was truncated."""
    model.say("", "length")
    model.say(GOOD, "length")
    error = failure(by(model, max_tokens=100))
    assert error.kind == "truncated"
    assert "truncated at 100 and at 200 tokens" in error.message


@pytest.mark.parametrize("first", [("", "length"), ("nonsense", "stop")])
def test_there_is_one_second_try_whatever_the_two_faults_are(model: FakeLlm, first: tuple[str, str]) -> None:
    """One repair round trip at most."""
    model.say(*first)
    model.say("nonsense")
    model.say(GOOD)
    assert failure(by(model)).kind == "bad_answer"
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("choice", "kind"),
    [
        ({"finish_reason": "content_filter", "message": {"content": "half"}}, "content_filtered"),
        ({"message": {"content": None, "refusal": "I cannot"}}, "content_filtered"),
        ({"message": {"content": "  "}}, "bad_answer"),
        ({"message": None}, "bad_answer"),
    ],
)
def test_usage_in_an_answer_without_an_answer_is_counted(
    model: FakeLlm, choice: dict[str, Any], kind: str
) -> None:
    """Each fails with its own reason, and the usage it reports is counted."""
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    model.answers.append((200, {"choices": [choice], "usage": usage}))
    options = by(model)
    assert failure(options).kind == kind
    assert used(options) == (1, 7, 3)


def test_each_request_is_announced_before_it_goes_out_and_may_be_refused(model: FakeLlm) -> None:
    """Without a charge no request is sent."""
    announced: list[int] = []

    def book(number: int) -> None:
        if number == 2:
            raise StepFailed("quota", "The budget is spent.")
        announced.append(number)

    model.say("nonsense")
    assert failure(by(model, before_request=book)).kind == "quota"
    assert (announced, len(model.requests)) == ([1], 1)


def test_characters_no_database_stores_are_removed_from_an_answer(model: FakeLlm) -> None:
    """NUL and half surrogates arrive as JSON escapes."""
    model.say({**GOOD, "title": "Slu\x00ices \ud800 in Practice", "keywords": ["a\x00"]})
    found = run(by(model)).analysis
    assert (found.title, found.keywords) == ("Sluices \ufffd in Practice", ("a",))


def test_nothing_of_the_paper_is_logged(model: FakeLlm, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    model.say("nonsense")
    model.say(GOOD)
    run(by(model))
    run(AnalyseOptions())
    assert SECRET not in caplog.text and "sk-key" not in caplog.text


def test_a_server_that_quotes_the_prompt_it_refuses_puts_none_of_it_into_the_error(model: FakeLlm) -> None:
    message = "cannot take: On twelve canals near Zanzibar it saved a third of the water; sorry"
    model.refuse(400, message)
    error = failure(by(model))
    assert "cannot take:[…]" in error.message and "; sorry" in error.message
    assert SECRET not in str(error)


# ---- what an endpoint takes


def formats(model: FakeLlm) -> list[str]:
    return [r.get("response_format", {}).get("type", "none") for r in model.requests]


def test_the_schema_is_sent_where_it_is_taken(model: FakeLlm) -> None:
    model.say(GOOD)
    run(by(model))
    sent = model.requests[0]["response_format"]["json_schema"]
    assert sent["strict"] is True
    assert set(sent["schema"]["required"]) == {"title", "summary", "keywords", *KINDS}


def test_an_endpoint_without_schemas_is_sent_json_object_requests_from_then_on(model: FakeLlm) -> None:
    model.refuse(400, "'response_format' of type 'json_schema' is not supported with this model")
    options = by(model)
    run(options)
    run(by(model))
    assert formats(model) == ["json_schema", "json_object", "json_object"]
    assert options.usage.requests == 2


def test_an_endpoint_without_response_formats_is_sent_none_by_the_next_lease(model: FakeLlm) -> None:
    """Two refusals use all reserved requests; the dialect is kept for the next lease,
    which may run in another process."""
    model.refuse(400, "response_format is not supported")
    model.refuse(422, "unknown field response_format")
    with pytest.raises(Reschedule) as caught:
        run(by(model))
    endpoints.reset_dialects()
    run(by(model, known=KnownLimits.from_context(caught.value.context)))
    assert formats(model) == ["json_schema", "json_object", "none"]


def test_newer_models_get_requests_in_their_own_dialect(model: FakeLlm) -> None:
    model.refuse(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    run(by(model, max_tokens=100))
    assert model.requests[1]["max_completion_tokens"] == 100
    assert "max_tokens" not in model.requests[1]


def test_a_refusal_about_something_else_teaches_nothing() -> None:
    assert Dialect().after("no such model") is None
    assert Dialect("none", "max_completion_tokens", False).after("response_format") is None


def test_a_dialect_out_of_a_context_is_only_taken_when_it_is_one() -> None:
    assert KnownLimits.from_context({"llm_dialect": Dialect("none").to_json()}).dialect == Dialect("none")
    for odd in (None, "none", {"response_format": "xml"}, {"unknown": 1}):
        assert KnownLimits.from_context({"llm_dialect": odd}).dialect is None
