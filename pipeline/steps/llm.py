"""One chat request to an OpenAI-compatible endpoint, and what every answer to it means.

The body decides, not the status: gateways pass rate limits on as 200, and an answer cut off at
its length limit looks like any other until `finish_reason` is read.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx

from pipeline.steps.retry_after import http_date, retry_after_seconds
from queuemgr.abort import AbortSignal
from queuemgr.errors import StepFailed

T = TypeVar("T")

Message = Mapping[str, str]

MAX_ANSWER_BYTES = 8 << 20
"""A chat answer is kilobytes; whatever sends more than this is not one."""

EXCERPT = 300
"""Characters of a server's own error message that are kept."""

CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")

MILLISECONDS = re.compile(r"\d{1,10}(?:\.\d{1,9})?")

NO_MONEY = re.compile(
    r"insufficient[_ ](?:quota|credits?|balance|funds)|billing|payment required|credit balance",
    re.IGNORECASE,
)
SLOW_DOWN = re.compile(r"rate.?limit|too many requests|\bquota\b|throttl", re.IGNORECASE)
TOO_LONG = re.compile(
    r"context[_ ](?:length|window)|maximum context|prompt is too long|too many (?:input )?tokens|"
    r"reduce the length|exceeds? the (?:maximum|model).{0,40}tokens",
    re.IGNORECASE,
)
BUSY = re.compile(r"server_error|overload|busy|unavailable|internal|try again|timeout", re.I)
REFUSED = re.compile(r"invalid_request|bad.?request|not.?found|invalid", re.IGNORECASE)


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


def chat(
    endpoint: Endpoint, messages: Sequence[Message], max_tokens: int, signal: AbortSignal
) -> Answer:
    """Send one request, never a second: retries belong to the queue, which sees every limit.

    Raises `StepFailed` (`rate_limited`, `quota`, `server_error`, `timeout`, `network`,
    `bad_request`, `http_error`, `bad_answer`), `AnswerCutOff` and `PromptTooLong` among them, and
    `Aborted` at once when the signal is set. Not for use inside a running event loop.
    """
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": [dict(message) for message in messages],
        "max_tokens": max_tokens,
        "temperature": 0,
    }
    if endpoint.json_mode:
        body["response_format"] = {"type": "json_object"}
    response = asyncio.run(abortable(send(endpoint, body), signal))
    return answer_of(response, endpoint)


async def abortable(work: Coroutine[Any, Any, T], signal: AbortSignal) -> T:
    """Await `work`, or cancel it and raise `Aborted` when the signal is set, from any thread."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

    def cancel() -> None:
        with suppress(RuntimeError):  # the loop may have closed in the meantime
            loop.call_soon_threadsafe(task.cancel)

    with signal.hooked(cancel):
        try:
            return await task
        except asyncio.CancelledError:
            signal.raise_if_aborted()
            raise


async def send(endpoint: Endpoint, body: Mapping[str, Any]) -> httpx.Response:
    """The response with its body read. Raises `StepFailed` when there is none to be had."""
    where = httpx_url(endpoint)
    try:
        async with asyncio.timeout(endpoint.timeout):
            return await post(where, headers_for(endpoint), body, endpoint.timeout)
    except (TimeoutError, httpx.TimeoutException):
        raise StepFailed(
            "timeout", f"The model at {where.host} gave no answer within {endpoint.timeout:g} s."
        ) from None
    except (httpx.UnsupportedProtocol, httpx.InvalidURL):
        raise wrong_address(endpoint) from None
    except httpx.TransportError as error:
        raise StepFailed(
            "network", f"The connection to {where.host} failed ({type(error).__name__})."
        ) from None


def httpx_url(endpoint: Endpoint) -> httpx.URL:
    try:
        return httpx.URL(endpoint.base_url.rstrip("/") + "/chat/completions")
    except httpx.InvalidURL:
        raise wrong_address(endpoint) from None


def wrong_address(endpoint: Endpoint) -> StepFailed:
    return StepFailed(
        "bad_request",
        f"The endpoint of model {endpoint.model!r} has no usable address: it must start with "
        "http:// or https://, such as https://api.openai.com/v1.",
    )


def headers_for(endpoint: Endpoint) -> dict[str, str]:
    # No compression: the limit on bytes then holds for what arrives as well as for what it means.
    headers = {"Accept-Encoding": "identity", "Accept": "application/json"}
    if endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    return headers


async def post(
    url: httpx.URL, headers: Mapping[str, str], body: Mapping[str, Any], timeout: float
) -> httpx.Response:
    """A client per request: one kept for later would belong to an event loop long closed."""
    async with (
        httpx.AsyncClient(timeout=timeout) as client,
        client.stream("POST", url, headers=headers, json=body) as response,
    ):
        content = bytearray()
        async for chunk in response.aiter_raw():
            content += chunk
            if len(content) > MAX_ANSWER_BYTES:
                raise StepFailed(
                    "bad_answer", f"The answer of {url.host} is no chat answer: too long."
                )
    return httpx.Response(response.status_code, headers=response.headers, content=bytes(content))


def answer_of(response: httpx.Response, endpoint: Endpoint) -> Answer:
    """The answer in a response. Raises `StepFailed` for anything but a complete one."""
    body = json_of(response)
    if response.status_code != 200 or body.get("error"):
        raise failure(response, body, endpoint)
    choice = first_choice(body)
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    refuse_incomplete(choice, message)
    text = text_of(message.get("content"))
    if not text.strip():
        what = "called a tool" if message.get("tool_calls") else "is empty"
        raise StepFailed("bad_answer", f"The model's answer {what}.")
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Answer(
        text,
        str(body.get("model") or endpoint.model),
        whole(usage.get("prompt_tokens")),
        whole(usage.get("completion_tokens")),
    )


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
    if reason == "length":
        raise AnswerCutOff("bad_answer", "The model's answer was cut off at its length limit.")
    if reason == "content_filter":
        raise StepFailed("bad_request", "The model's answer was withheld by a content filter.")
    if message.get("refusal"):
        raise StepFailed("bad_request", "The model refused to answer.")


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
    fields = error if isinstance(error, dict) else {"message": error}
    said = " ".join(str(fields[name]) for name in ("type", "code", "message") if fields.get(name))
    status = status_of(response, fields)
    kind = kind_of(status, said)
    sort = PromptTooLong if kind == "bad_request" and TOO_LONG.search(said) else StepFailed
    return sort(
        kind,
        f"{SENTENCES[kind]} (status {response.status_code}): {excerpt(said, endpoint)}",
        retry_after=wait_of(response),
        http_status=response.status_code,
    )


SENTENCES = {
    "rate_limited": "The model's endpoint asks to slow down",
    "quota": "The account at the model's endpoint has used up its quota",
    "server_error": "The model's endpoint has a fault of its own",
    "bad_request": "The model's endpoint cannot take this request",
    "http_error": "The model's endpoint refuses this request; check the API key and its rights",
    "bad_answer": "The model's endpoint answered with an error it does not explain",
}


def status_of(response: httpx.Response, error: Mapping[str, Any]) -> int:
    """The status meant: gateways put the real one into the body of a 200."""
    meant = error.get("code") or error.get("status")
    if response.status_code == 200 and isinstance(meant, int):
        return meant
    return response.status_code


def kind_of(status: int, said: str) -> str:
    """The error kind for a status and what was said with it (see `queuemgr.retry.POLICIES`)."""
    if status == 402 or (status in (200, 403, 429) and NO_MONEY.search(said)):
        return "quota"
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


def wait_of(response: httpx.Response) -> float | None:
    """Seconds the server asks to wait; `retry-after-ms` is the finer one where both are sent."""
    milliseconds = response.headers.get("retry-after-ms", "").strip()
    if MILLISECONDS.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    clock = http_date(response.headers.get("date", "")) or datetime.now(UTC)
    return retry_after_seconds(response.headers.get("retry-after"), now=clock)
