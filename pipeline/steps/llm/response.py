"""What every answer of an OpenAI-compatible endpoint means. Pure.

The body decides, not the status: gateways pass rate limits on as 200, and an answer cut off at
its length limit looks like any other until `finish_reason` is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx

from pipeline.steps.http.retry_after import http_date, retry_after_seconds
from pipeline.steps.llm.endpoint import Endpoint
from queuemgr import StepFailed

EXCERPT = 300
"""Characters of a server's own error message that are kept."""

ECHO = 20
"""Characters in a row that stand in the prompt as well: no coincidence, but a quotation."""

CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")

ERROR_STATUS = re.compile(r"[45][0-9]{2}")

MILLISECONDS = re.compile(r"\d{1,10}(?:\.\d{1,9})?")

NO_MONEY = re.compile(
    r"insufficient[_ ](?:quota|credits?|balance|funds)|billing|payment required|credit balance",
    re.IGNORECASE,
)
INSUFFICIENT = re.compile(r"insufficient[_ -]?(?:quota|credit|balance|fund)", re.IGNORECASE)
"""As a code, not in a sentence, it is about money whatever else is said."""

RATE = re.compile(
    r"rate.?limit|too many requests|\bper[_ -]?(?:sec|min|hour)|/ ?(?:s|min)\b|\b[RT]P[MSH]\b|"
    r"(?:retry|try again) (?:in|after) \d",
    re.IGNORECASE,
)
"""Signs of a rate. Words about quota, plan and billing stand in such refusals too ("add a payment
method to raise your limit"): taken for an empty account they would open the breaker for the day."""

SLOW_DOWN = re.compile(r"rate.?limit|too many requests|\bquota\b|throttl", re.IGNORECASE)
TOO_LONG = re.compile(
    r"context[_ ](?:length|window)|maximum context|prompt is too long|too many (?:input )?tokens|"
    r"reduce the length|exceeds? the (?:maximum|model).{0,40}tokens",
    re.IGNORECASE,
)
FILTERED = re.compile(r"content.?(?:filter|policy|management)|responsible.?ai|moderation", re.I)
BUSY = re.compile(r"server_error|overload|busy|unavailable|internal|try again|timeout", re.I)
REFUSED = re.compile(r"invalid_request|bad.?request|not.?found|invalid", re.IGNORECASE)

COMPLETE = frozenset({"", "stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls"})
"""Finish reasons of whole answers, in lower case: OpenAI's, text-generation-inference's and
Anthropic's. Some servers send none. A call of a tool is looked at by its content."""

CUT_OFF = frozenset({"length", "max_tokens", "model_length"})
"""Those of answers that met a limit: OpenAI's, Anthropic's and Gemini's, Mistral's."""


@dataclass(frozen=True)
class Answer:
    """A complete answer; token counts as the server reports them, 0 when it does not."""

    text: str
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class AnswerCutOff(StepFailed):
    """The answer ended at its length limit: asking the same again would end the same."""


class PromptTooLong(StepFailed):
    """The endpoint refuses a prompt of this length; its message holds the numbers."""


def answer_of(response: httpx.Response, endpoint: Endpoint) -> Answer:
    """The answer in a response. Raises `StepFailed` for anything but a complete one."""
    return answer_in(json_of(response), response, endpoint)


def answer_in(body: Mapping[str, Any], response: httpx.Response, endpoint: Endpoint) -> Answer:
    """The answer in a body already read. Raises `StepFailed` for anything but a complete one."""
    without = not body.get("choices") and meant_by(body) is not None
    if response.status_code != 200 or body.get("error") or without:
        raise failure(response, body, endpoint)
    choice = first_choice(body)
    if choice.get("error"):
        raise failure(response, choice, endpoint)
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    refuse_incomplete(choice, message)
    text = text_of(message.get("content"))
    if not text.strip():
        what = "called a tool" if message.get("tool_calls") else "is empty"
        raise StepFailed("bad_answer", f"The model's answer {what}.")
    return Answer(text, str(body.get("model") or endpoint.model), *usage_of(body))


def usage_of(body: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens of the prompt and of the completion, as the server reports them; 0 where it does not."""
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens"))


def json_of(response: httpx.Response) -> dict[str, Any]:
    """The body as an object; {} for an error without one. Raises `bad_answer` on a useless 200."""
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict):
        return body
    if response.status_code == 200:
        raise StepFailed("bad_answer", "The answer came with status 200 but is no JSON object.")
    return {}


def first_choice(body: Mapping[str, Any]) -> dict[str, Any]:
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise StepFailed("bad_answer", "The model's answer holds no choices.")
    return choices[0]


def refuse_incomplete(choice: Mapping[str, Any], message: Mapping[str, Any]) -> None:
    """Look at the finish reason first: a cut-off answer may have no content at all."""
    reason = choice.get("finish_reason")
    reason = "" if reason is None else str(reason).lower()
    if reason in CUT_OFF:
        raise AnswerCutOff("cut_off", "The model's answer was cut off at its length limit.")
    if reason == "content_filter":
        raise StepFailed("withheld", "The model's answer was withheld by a content filter.")
    if message.get("refusal"):
        raise StepFailed("withheld", "The model refused to answer.")
    if reason not in COMPLETE:
        named = CONTROLS.sub(" ", reason)[:40]
        raise StepFailed("bad_answer", f"The model's answer is not whole: it ended by {named!r}.")


def text_of(content: object) -> str:
    """Content is a string, or a list of parts of which the texts count."""
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def whole(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def failure(response: httpx.Response, body: Mapping[str, Any], endpoint: Endpoint) -> StepFailed:
    """What an error says, whichever status it came with."""
    error = body.get("error") or body.get("message") or ""
    fields = error if isinstance(error, dict) else {"code": body.get("code"), "message": error}
    codes = " ".join(str(fields[name]) for name in ("type", "code") if fields.get(name))
    said = " ".join(str(fields[name]) for name in ("type", "code", "message") if fields.get(name))
    wait = wait_of(response)
    kind = kind_of(status_of(response, fields, body), said, codes, waits=wait is not None)
    sort: type[StepFailed] = StepFailed
    if kind == "bad_request" and TOO_LONG.search(said):
        kind, sort = "too_long", PromptTooLong
    elif kind == "bad_request" and FILTERED.search(said):
        kind = "withheld"
    return sort(
        kind,
        f"{SENTENCES[kind]} (status {response.status_code}): {excerpt(said, endpoint)}",
        retry_after=wait,
        http_status=response.status_code,
    )


SENTENCES = {
    "rate_limited": "The model's endpoint asks to slow down",
    "quota": "The account at the model's endpoint has used up its quota",
    "server_error": "The model's endpoint has a fault of its own",
    "bad_request": "The model's endpoint cannot take this request",
    "too_long": "The model's endpoint takes no prompt of this length",
    "withheld": "The model's endpoint filters out this request for its content",
    "http_error": "The model's endpoint refuses this request; check the API key and its rights",
    "bad_answer": "The model's endpoint answered with an error it does not explain",
}


def status_of(response: httpx.Response, *told: Mapping[str, Any]) -> int:
    """The status meant: gateways put the real one into the body of a 200."""
    if response.status_code != 200:
        return response.status_code
    return next((meant for fields in told if (meant := meant_by(fields)) is not None), 200)


def meant_by(fields: Mapping[str, Any]) -> int | None:
    """The HTTP status of an error that stands in these fields, as a number or in digits."""
    for name in ("code", "status"):
        said = str(fields.get(name))
        if ERROR_STATUS.fullmatch(said):
            return int(said)
    return None


def kind_of(status: int, said: str, codes: str, *, waits: bool) -> str:
    """The error kind for a status, what was said with it, the codes among that, and whether it
    names a time to wait (see `queuemgr.flows.retry_policy.POLICIES`)."""
    if status == 402:
        return "quota"
    if status in (200, 403, 429) and NO_MONEY.search(f"{codes} {said}"):
        rate = waits or RATE.search(said)
        return "rate_limited" if rate and not INSUFFICIENT.search(codes) else "quota"
    if status == 429:
        return "rate_limited"
    if status >= 500 or status in (408, 409, 425):
        return "server_error"
    if status in (400, 404, 413, 422):
        return "bad_request"
    return kind_by_words(said) if status == 200 else "http_error"


def kind_by_words(said: str) -> str:
    if SLOW_DOWN.search(said):
        return "rate_limited"
    if TOO_LONG.search(said) or REFUSED.search(said):
        return "bad_request"
    return "server_error" if BUSY.search(said) else "bad_answer"


def excerpt(said: str, endpoint: Endpoint) -> str:
    """The server's words, bounded, on one line, and without the key some servers quote back."""
    if endpoint.api_key:
        said = said.replace(endpoint.api_key, "***")
    return CONTROLS.sub(" ", said).strip()[:EXCERPT] or "no reason given"


def without_echo(said: str, messages: Iterable[Mapping[str, str]]) -> str:
    """Words without what they repeat of the messages sent: some servers quote the prompt they
    refuse, and a paper must get into no error."""
    sent = CONTROLS.sub(" ", "\n".join(message["content"] for message in messages))
    echoed: set[int] = set()
    for start in range(len(said) - ECHO + 1):
        if said[start : start + ECHO] in sent:
            echoed.update(range(start, start + ECHO))
    kept = ("\0" if at in echoed else char for at, char in enumerate(said))
    return re.sub("\0+", "[…]", "".join(kept))


def wait_of(response: httpx.Response) -> float | None:
    """Seconds the server asks to wait; `retry-after-ms` is the finer one where both are sent."""
    milliseconds = response.headers.get("retry-after-ms", "").strip()
    if MILLISECONDS.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    clock = http_date(response.headers.get("date", "")) or datetime.now(UTC)
    return retry_after_seconds(response.headers.get("retry-after"), now=clock)
