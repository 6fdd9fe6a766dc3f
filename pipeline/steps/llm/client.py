"""Chat requests to an OpenAI-compatible endpoint: one request a call, never a second.

Retries belong to the queue, which sees every limit. What the answers mean is in `chat_answer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from pipeline.steps.analyse.prompts import Message
from pipeline.steps.llm.endpoint import Dialect, Endpoint, known, remember
from pipeline.steps.llm.response import (
    Answer,
    AnswerCutOff,
    PromptTooLong,
    answer_in,
    json_of,
    usage_of,
    without_echo,
)
from queuemgr import AbortSignal, StepFailed

__all__ = ["Answer", "AnswerCutOff", "Endpoint", "Message", "PromptTooLong", "chat"]

T = TypeVar("T")

MAX_ANSWER_BYTES = 8 << 20
"""A chat answer is kilobytes; whatever sends more than this is not one."""


class DialectRefused(StepFailed):
    """The endpoint does not take the request as it is written; the next one is written otherwise."""


@dataclass
class Tally:
    """What was asked and used so far, refused and useless answers included: requests sent, and
    tokens as the server reports them."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, body: Mapping[str, Any]) -> None:
        """Add the usage an answer reports, whatever else it says."""
        prompt, completion = usage_of(body)
        self.prompt_tokens += prompt
        self.completion_tokens += completion


class Model:
    """One endpoint, asked over one pool of connections on one event loop. Made by `connected`."""

    def __init__(self, endpoint: Endpoint, client: httpx.AsyncClient, tally: Tally) -> None:
        self.endpoint, self.tally = endpoint, tally
        self._client = client

    async def ask(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        schema: Mapping[str, Any] | None = None,
        *,
        json_object: bool = False,
    ) -> Answer:
        """Send one request. `schema` is what the answer should follow, where the endpoint takes it;
        with `json_object` it should be any JSON object.

        Raises `StepFailed` as `chat` does, `DialectRefused` among them.
        """
        dialect = known(self.endpoint)
        body: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": [dict(message) for message in messages],
            **dialect.limits(max_tokens),
            **(dialect.format(schema) if json_object or schema is not None else {}),
        }
        self.tally.requests += 1
        response = await send(self._client, self.endpoint, body)
        found = json_of(response)
        self.tally.add(found)
        try:
            return answer_in(found, response, self.endpoint)
        except StepFailed as refusal:
            refusal.message = without_echo(refusal.message, messages)
            refusal.args = (refusal.message,)
            raise self._learn(dialect, refusal) from None

    def _learn(self, dialect: Dialect, refusal: StepFailed) -> StepFailed:
        """The refusal itself, or what was learnt from it about how to ask."""
        other = dialect.after(refusal.message) if refusal.kind == "bad_request" else None
        if other is None:
            return refusal
        if known(self.endpoint) == dialect:  # else another thread has learnt it meanwhile
            remember(self.endpoint, other)
        return DialectRefused(refusal.kind, refusal.message, http_status=refusal.http_status)


@asynccontextmanager
async def connected(endpoint: Endpoint, tally: Tally, connections: int = 1) -> AsyncIterator[Model]:
    """The model at an endpoint, for as long as the block runs and on its event loop alone.

    The endpoint is the operator's own choice and may be local or private: it is not one of the
    addresses papers name, so it is not checked as those are.
    """
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    async with httpx.AsyncClient(timeout=endpoint.timeout, limits=limits) as client:
        yield Model(endpoint, client, tally)


def chat(
    endpoint: Endpoint, messages: Sequence[Message], max_tokens: int, signal: AbortSignal
) -> Answer:
    """Send one request and wait for its answer. Not for use inside a running event loop.

    Raises `StepFailed` (`rate_limited`, `quota`, `server_error`, `timeout`, `network`, `withheld`,
    `bad_request`, `http_error`, `bad_answer`), `AnswerCutOff` (`cut_off`), `PromptTooLong`
    (`too_long`) and `DialectRefused` among them, and `Aborted` at once when the signal is set.
    """

    async def ask() -> Answer:
        async with connected(endpoint, Tally()) as model:
            return await model.ask(messages, max_tokens, json_object=endpoint.json_mode)

    signal.raise_if_aborted()
    return asyncio.run(abortable(ask(), signal))


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


async def send(
    client: httpx.AsyncClient, endpoint: Endpoint, body: Mapping[str, Any]
) -> httpx.Response:
    """The response with its body read. Raises `StepFailed` when there is none to be had."""
    where = address_of(endpoint)
    try:
        async with asyncio.timeout(endpoint.timeout):
            return await post(client, where, headers_for(endpoint), body)
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


def address_of(endpoint: Endpoint) -> httpx.URL:
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
    client: httpx.AsyncClient, url: httpx.URL, headers: Mapping[str, str], body: Mapping[str, Any]
) -> httpx.Response:
    """A response, read up to `MAX_ANSWER_BYTES`. Raises `bad_answer` beyond them."""
    async with client.stream("POST", url, headers=headers, json=body) as response:
        content = bytearray()
        async for chunk in response.aiter_raw():
            content += chunk
            if len(content) > MAX_ANSWER_BYTES:
                raise StepFailed(
                    "bad_answer", f"The answer of {url.host} is no chat answer: too long."
                )
    return httpx.Response(response.status_code, headers=response.headers, content=bytes(content))
