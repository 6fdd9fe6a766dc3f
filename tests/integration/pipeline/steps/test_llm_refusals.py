"""The meaning of finish reasons, error codes and texts of real servers."""

from __future__ import annotations

import httpx
import pytest

from pipeline.steps.llm.endpoint import Endpoint
from pipeline.steps.llm.response import Answer, AnswerTruncated, answer_of
from queuemgr.base.errors import StepFailed

ENDPOINT = Endpoint("http://127.0.0.1:1/v1", "m-1")


def answered(body: object, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answer_of(httpx.Response(status, json=body, headers=named), ENDPOINT)


def failed(body: object, status: int = 200, **headers: str) -> StepFailed:
    with pytest.raises(StepFailed) as caught:
        answered(body, status, **headers)
    return caught.value


def ended_by(reason: object, content: str = "It says th") -> dict[str, object]:
    return {"choices": [{"finish_reason": reason, "message": {"content": content}}]}


@pytest.mark.parametrize(
    "reason", ["stop", "STOP", "eos", "end_turn", "stop_sequence", "", None, "tool_calls"]
)
def test_an_answer_that_came_to_its_end_is_taken(reason: str | None) -> None:
    assert answered(ended_by(reason)).text == "It says th"


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS", "model_length"])
def test_every_name_of_a_length_limit_is_a_cut_off(reason: str) -> None:
    error = failed(ended_by(reason))
    assert (type(error), error.kind) == (AnswerTruncated, "truncated")


@pytest.mark.parametrize(
    "reason", ["error", "insufficient_system_resource", "abort", "RECITATION", "unknown reason", 7]
)
def test_an_answer_that_ended_otherwise_never_passes_as_whole(reason: object) -> None:
    error = failed(ended_by(reason))
    assert error.kind == "bad_answer"
    assert str(reason).lower() in error.message


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"code": "429", "message": "Model busy"}}, "rate_limited"),
        ({"error": {"code": "402", "message": "top up"}}, "quota"),
        ({"error": {"code": "busy", "status": "503", "message": "later"}}, "server_error"),
        ({"error": "Model busy", "code": "429"}, "rate_limited"),
        ({"code": "429", "message": "one at a time"}, "rate_limited"),
        ({"code": 402, "message": "top up"}, "quota"),
        ({"error": {"code": 1302, "message": "Computer says no"}}, "bad_answer"),
        ({"choices": [{"finish_reason": "error", "error": {"code": 502}}]}, "server_error"),
    ],
)
def test_a_status_in_the_body_counts_as_a_number_or_in_digits(body: object, kind: str) -> None:
    assert failed(body).kind == kind


PLAN = "You exceeded your current quota, please check your plan and billing details."
CARD = "Limit: 3 / min. Visit account/billing to add a payment method."


@pytest.mark.parametrize(
    ("error", "headers", "kind"),
    [
        ({"message": f"Rate limit reached on requests per min. {CARD}"}, {}, "rate_limited"),
        ({"message": f"Limit of tokens per minute met. {CARD}"}, {}, "rate_limited"),
        ({"message": f"{PLAN} Please retry in 23.5s."}, {}, "rate_limited"),
        ({"message": PLAN}, {"Retry_After": "20"}, "rate_limited"),
        ({"message": PLAN}, {}, "quota"),
        ({"type": "insufficient_quota", "message": PLAN}, {"Retry_After": "20"}, "quota"),
        ({"code": "insufficient_credits", "message": "rate limit 0 per minute"}, {}, "quota"),
    ],
)
def test_a_rate_limit_that_mentions_billing_does_not_open_the_breaker_for_the_day(
    error: dict[str, str], headers: dict[str, str], kind: str
) -> None:
    assert failed({"error": error}, 429, **headers).kind == kind
