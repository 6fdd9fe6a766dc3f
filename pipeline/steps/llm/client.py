"""Chat requests to an OpenAI-compatible endpoint: one request per call, without retries.

Retries are the queue's, which applies the limits. `llm.response` interprets the answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import httpx

from pipeline.steps.analyse.prompts import Message
from pipeline.steps.http.bounded_body import read_whole
from pipeline.steps.http.connections import certificates
from pipeline.steps.llm.endpoint import Dialect, Endpoint, dialect_for, save_dialect
from pipeline.steps.llm.response import Answer, AnswerTruncated, PromptTooLong, read_by
from pipeline.steps.llm.usage import Usage, most_plausible
from queuemgr import AbortSignal, StepFailed

__all__ = ["Answer", "AnswerTruncated", "Endpoint", "Message", "PromptTooLong", "Usage"]

T = TypeVar("T")

MAX_ANSWER_BYTES = 8 << 20
"""A chat answer has kilobytes; anything larger than this is not one."""


class DialectRefused(StepFailed):
    """The endpoint does not accept this form of request; the next one uses another dialect."""


class Model:
    """An endpoint with a connection pool on one event loop. Created by `connected`."""

    def __init__(self, endpoint: Endpoint, client: httpx.AsyncClient, usage: Usage) -> None:
        self.endpoint, self.usage = endpoint, usage
        self._client = client

    async def ask(
        self, messages: Sequence[Message], max_tokens: int, schema: Mapping[str, Any] | None = None
    ) -> Answer:
        """Send one request and wait for its answer, which should follow `schema`, if the endpoint
        accepts one.

        Raises `StepFailed` (`rate_limited`, `quota`, `server_error`, `timeout`, `network`,
        `content_filtered`, `bad_request`, `http_error`, `bad_answer`), `AnswerTruncated` (`truncated`),
        `PromptTooLong` (`too_long`) and `DialectRefused` among them.
        """
        dialect = dialect_for(self.endpoint)
        body: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": [dict(message) for message in messages],
            **dialect.limits(max_tokens),
            **({} if schema is None else dialect.format(schema)),
        }
        self.usage.requests += 1
        sent = time.monotonic()
        try:
            response = await send(self._client, self.endpoint, body)
        except StepFailed as failure:
            self.usage.unanswered(timed_out=failure.kind == "timeout")
            raise
        await self.usage.after_headers(response.headers, sent)
        # In a thread, as it may be long: the event loop only reads and writes.
        read = await asyncio.to_thread(read_by, response, self.endpoint, messages)
        most = most_plausible((message["content"] for message in messages), max_tokens)
        await self.usage.add(read.used, most, refused=response.status_code != 200)
        if isinstance(read.answer, StepFailed):
            raise await asyncio.to_thread(self._adapt, dialect, read.answer)
        return read.answer

    def _adapt(self, dialect: Dialect, refusal: StepFailed) -> StepFailed:
        """The refusal, or `DialectRefused` after changing the dialect because of it."""
        other = dialect.after(refusal.message) if refusal.kind == "bad_request" else None
        if other is None:
            return refusal
        if dialect_for(self.endpoint) == dialect:  # else another thread has changed it meanwhile
            save_dialect(self.endpoint, other)
        return DialectRefused(refusal.kind, refusal.message, http_status=refusal.http_status)


@asynccontextmanager
async def connected(endpoint: Endpoint, usage: Usage, connections: int = 1) -> AsyncIterator[Model]:
    """The model at an endpoint, for use inside the block and on its event loop only.

    The operator chose the endpoint, which may be local or private, so its address is not checked as
    those from papers are.
    """
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    async with httpx.AsyncClient(timeout=endpoint.timeout, limits=limits, verify=certificates()) as client:
        yield Model(endpoint, client, usage)


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


async def send(client: httpx.AsyncClient, endpoint: Endpoint, body: Mapping[str, Any]) -> httpx.Response:
    """The response with its body read. Raises `StepFailed` if there is none."""
    url = address_of(endpoint)
    try:
        async with asyncio.timeout(endpoint.timeout):
            return await post(client, url, headers_for(endpoint), body)
    except (TimeoutError, httpx.TimeoutException):
        raise StepFailed(
            "timeout", f"The model at {url.host} gave no answer within {endpoint.timeout:g} s."
        ) from None
    except (httpx.UnsupportedProtocol, httpx.InvalidURL):
        raise wrong_address(endpoint) from None
    except httpx.TransportError as error:
        raise StepFailed(
            "network", f"The connection to {url.host} failed ({type(error).__name__})."
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
    # Answers are short; one that is packed nevertheless is unpacked within the limit.
    headers = {"Accept-Encoding": "identity", "Accept": "application/json"}
    if endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    return headers


async def post(
    client: httpx.AsyncClient, url: httpx.URL, headers: Mapping[str, str], body: Mapping[str, Any]
) -> httpx.Response:
    """A response, read up to `MAX_ANSWER_BYTES`. Raises `bad_answer` if it is larger."""
    async with client.stream("POST", url, headers=headers, json=body) as response:
        return await read_whole(response, MAX_ANSWER_BYTES, f"The model at {url.host}")
