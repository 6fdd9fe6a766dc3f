"""Interpret the responses of an OpenAI-compatible endpoint. Pure.

The body decides, not the status: gateways pass on rate limits as 200, and an answer cut off at its
length limit looks like any other except for its `finish_reason`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import httpx

from pipeline.steps.llm.endpoint import Endpoint
from pipeline.steps.llm.usage import ReportedUsage
from queuemgr import StepFailed
from queuemgr.extend.secrets import clean
from queuemgr.steptools.retry_after import http_date, wait_in

MOST_TOKENS = 1_000_000_000
"""Of one request. Columns add up billions of such requests."""

EXCERPT = 300
"""Characters of a server's own error message that are kept."""

ECHO_CHARACTERS = 20
"""Consecutive characters that also occur in the prompt count as a quotation of it."""

CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")

ERROR_STATUS = re.compile(r"[45][0-9]{2}")

NO_MONEY = re.compile(
    r"insufficient[_ ](?:quota|credits?|balance|funds)|billing|payment required|credit balance", re.IGNORECASE
)
INSUFFICIENT = re.compile(r"insufficient[_ -]?(?:quota|credit|balance|fund)", re.IGNORECASE)
"""As an error code, rather than in a sentence, it always means money."""

RATE = re.compile(
    r"rate.?limit|too many requests|\bper[_ -]?(?:sec|min|hour)|/ ?(?:s|min)\b|\b[RT]P[MSH]\b|"
    r"(?:retry|try again) (?:in|after) \d",
    re.IGNORECASE,
)
"""Signs of a rate limit. Such refusals also mention quota, plan and billing ("add a payment method to
raise your limit"); taken for an empty account they would open the breaker for the day."""

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
"""Finish reasons of complete answers, in lower case: OpenAI's, text-generation-inference's and
Anthropic's. Some servers send none. A tool call is judged by its content."""

CUT_OFF = frozenset({"length", "max_tokens", "model_length"})
"""Those of answers that reached a limit: OpenAI's, Anthropic's and Gemini's, Mistral's."""


@dataclass(frozen=True)
class Answer:
    """A complete answer; token counts as the server reports them, else 0."""

    text: str
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class AnswerTruncated(StepFailed):
    """The answer ended at its length limit; the same request would end the same way."""


class PromptTooLong(StepFailed):
    """The endpoint refuses a prompt of this length; its message contains the numbers."""


def answer_of(response: httpx.Response, endpoint: Endpoint) -> Answer:
    """The answer in a response. Raises `StepFailed` for anything but a complete one."""
    return answer_in(json_of(response), response, endpoint)


def answer_in(body: Mapping[str, Any], response: httpx.Response, endpoint: Endpoint) -> Answer:
    """The answer in a parsed body. Raises `StepFailed` for anything but a complete one."""
    without = not body.get("choices") and error_status_in(body) is not None
    if response.status_code != 200 or body.get("error") or without:
        raise failure_of(response, body, endpoint)
    choice = first_choice(body)
    if choice.get("error"):
        raise failure_of(response, choice, endpoint)
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    refuse_incomplete(choice, message)
    text = text_of(message.get("content"))
    if not text.strip():
        what = "called a tool" if message.get("tool_calls") else "is empty"
        raise StepFailed("bad_answer", f"The model's answer {what}.")
    return Answer(text, clean(str(body.get("model") or endpoint.model)), *usage_of(body)[:2])


class Read(NamedTuple):
    """A response as it was read: the tokens it reports, and the answer or why there is none."""

    used: ReportedUsage
    answer: Answer | StepFailed


def read_by(response: httpx.Response, endpoint: Endpoint, sent: Sequence[Mapping[str, str]] = ()) -> Read:
    """All that a response says. Raises `bad_answer` for a 200 without a JSON object."""
    body = json_of(response)
    try:
        return Read(usage_of(body), answer_in(body, response, endpoint))
    except StepFailed as refusal:
        refusal.message = without_echo(refusal.message, sent)
        refusal.args = (refusal.message,)
        return Read(usage_of(body), refusal)


def usage_of(body: Mapping[str, Any]) -> ReportedUsage:
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return ReportedUsage(
        whole(usage.get("prompt_tokens")),
        whole(usage.get("completion_tokens")),
        whole(cached) or whole(usage.get("prompt_cache_hit_tokens")),  # OpenAI's, and DeepSeek's
    )


def json_of(response: httpx.Response) -> dict[str, Any]:
    """The body as an object; {} for an error without one. Raises `bad_answer` for a 200 without one."""
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict):
        return body
    if response.status_code == 200:
        raise StepFailed("bad_answer", "The answer has status 200 but is not a JSON object.")
    return {}


def first_choice(body: Mapping[str, Any]) -> dict[str, Any]:
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise StepFailed("bad_answer", "The model's answer has no choices.")
    return choices[0]


def refuse_incomplete(choice: Mapping[str, Any], message: Mapping[str, Any]) -> None:
    """Check the finish reason first: a truncated answer may have no content at all."""
    reason = choice.get("finish_reason")
    reason = "" if reason is None else str(reason).lower()
    if reason in CUT_OFF:
        raise AnswerTruncated("truncated", "The model's answer was truncated at its length limit.")
    if reason == "content_filter":
        raise StepFailed("content_filtered", "The model's answer was blocked by a content filter.")
    if message.get("refusal"):
        raise StepFailed("content_filtered", "The model refused to answer.")
    if reason not in COMPLETE:
        named = CONTROLS.sub(" ", clean(reason))[:40]
        raise StepFailed("bad_answer", f"The model's answer is incomplete: its finish reason is {named!r}.")


def text_of(content: object) -> str:
    """Content is a string, or a list of parts, of which the text parts count."""
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def whole(value: object) -> int:
    """A number of tokens; 0 for what is none, or more than any answer has."""
    return value if type(value) is int and 0 < value <= MOST_TOKENS else 0


def failure_of(response: httpx.Response, body: Mapping[str, Any], endpoint: Endpoint) -> StepFailed:
    """The failure in an error response, whatever its status."""
    error = body.get("error") or body.get("message") or ""
    fields = error if isinstance(error, dict) else {"code": body.get("code"), "message": error}
    codes = " ".join(str(fields[name]) for name in ("type", "code") if fields.get(name))
    text = " ".join(str(fields[name]) for name in ("type", "code", "message") if fields.get(name))
    wait = wait_of(response)
    kind = kind_of(status_of(response, fields, body), text, codes, waits=wait is not None)
    error_type: type[StepFailed] = StepFailed
    if kind == "bad_request" and TOO_LONG.search(text):
        kind, error_type = "too_long", PromptTooLong
    elif kind == "bad_request" and FILTERED.search(text):
        kind = "content_filtered"
    return error_type(
        kind,
        f"{SENTENCES[kind]} (status {response.status_code}): {excerpt(text, endpoint)}",
        retry_after=wait,
        http_status=response.status_code,
        meter="tokens" if kind == "rate_limited" and fields.get("type") == "tokens" else "",
    )


SENTENCES = {
    "rate_limited": "The model's endpoint asks to slow down",
    "quota": "The account at the model's endpoint has used up its quota",
    "server_error": "The model's endpoint has an internal error",
    "bad_request": "The model's endpoint does not accept this request",
    "too_long": "The model's endpoint does not accept a prompt of this length",
    "content_filtered": "The model's endpoint blocked this request for its content",
    "http_error": "The model's endpoint refuses this request; check the API key and its permissions",
    "bad_answer": "The model's endpoint returned an error without an explanation",
}


def status_of(response: httpx.Response, *sources: Mapping[str, Any]) -> int:
    """The real status, which gateways put in the body of a 200."""
    if response.status_code != 200:
        return response.status_code
    return next((status for fields in sources if (status := error_status_in(fields)) is not None), 200)


def error_status_in(fields: Mapping[str, Any]) -> int | None:
    """The HTTP error status in these fields, as a number or in digits."""
    for name in ("code", "status"):
        value = str(fields.get(name))
        if ERROR_STATUS.fullmatch(value):
            return int(value)
    return None


def kind_of(status: int, text: str, codes: str, *, waits: bool) -> str:
    """The error kind for a status, the error text, its codes, and whether it names a wait."""
    if status == 402:
        return "quota"
    if status in (200, 403, 429) and NO_MONEY.search(f"{codes} {text}"):
        rate = waits or RATE.search(text)
        return "rate_limited" if rate and not INSUFFICIENT.search(codes) else "quota"
    if status == 429:
        return "rate_limited"
    if status >= 500 or status in (408, 409, 425):
        return "server_error"
    if status in (400, 404, 413, 422):
        return "bad_request"
    return kind_by_words(text) if status == 200 else "http_error"


def kind_by_words(text: str) -> str:
    if SLOW_DOWN.search(text):
        return "rate_limited"
    if TOO_LONG.search(text) or REFUSED.search(text):
        return "bad_request"
    return "server_error" if BUSY.search(text) else "bad_answer"


def excerpt(text: str, endpoint: Endpoint) -> str:
    """The server's text, shortened, on one line, and without the key that some servers quote."""
    if endpoint.api_key:
        text = text.replace(endpoint.api_key, "***")
    return CONTROLS.sub(" ", clean(text)).strip()[:EXCERPT] or "no reason given"


def without_echo(text: str, messages: Iterable[Mapping[str, str]]) -> str:
    """The text without quotations of the messages sent: some servers quote the prompt they refuse, and
    no error may contain a paper."""
    sent = CONTROLS.sub(" ", "\n".join(message["content"] for message in messages))
    echoed: set[int] = set()
    for start in range(len(text) - ECHO_CHARACTERS + 1):
        if text[start : start + ECHO_CHARACTERS] in sent:
            echoed.update(range(start, start + ECHO_CHARACTERS))
    kept = ("\0" if at in echoed else char for at, char in enumerate(text))
    return re.sub("\0+", "[…]", "".join(kept))


def wait_of(response: httpx.Response) -> float | None:
    """Seconds the server asks to wait, by its own clock if it sends one."""
    clock = http_date(response.headers.get("date", "")) or datetime.now(UTC)
    return wait_in(response.headers, clock)
