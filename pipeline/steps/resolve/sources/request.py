"""One question to a service is one request: no redirect is followed, and the answer is bounded."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx

from pipeline.steps.http.client import HttpClient
from pipeline.steps.http.decompress import Unpacker
from pipeline.steps.http.failure import failed, named_failures
from pipeline.steps.http.safe_addresses import shown
from queuemgr import AbortSignal, StepFailed

MAX_BYTES = 8 << 20
"""Bytes: far above any record of these services."""


@dataclass(frozen=True)
class Reply:
    """The body of a success, or where the service says it has the record now."""

    body: bytes = b""
    moved_to: str = ""


def ask(
    url: str, headers: dict[str, str], deadline: float, http: HttpClient, signal: AbortSignal
) -> Reply:
    """Send one GET to an operator's own choice of host, and read its answer within `deadline` s.

    Redirects are told, not followed: each request must pass the service's rate on its own, and a key
    must not travel to another host. Raises Aborted, and StepFailed as `http_failure` names it.
    """
    return http.run(_asked(url, headers, deadline, http), signal)


async def _asked(url: str, headers: dict[str, str], deadline: float, http: HttpClient) -> Reply:
    with named_failures(url):
        async with (
            asyncio.timeout(deadline),
            http.client.stream("GET", url, headers=headers) as response,
        ):
            if response.next_request is not None:
                return Reply(moved_to=str(response.next_request.url))
            if not response.is_success:
                raise failed(response.url, response)
            return Reply(await _body(response))


async def _body(response: httpx.Response) -> bytes:
    unpacker, body = Unpacker(response.headers.get("content-encoding", "")), bytearray()
    async for raw in response.aiter_raw():
        for piece in unpacker.feed(raw):
            body += piece
            if len(body) > MAX_BYTES:
                raise StepFailed("bad_answer", f"{shown(response.url)} sent over {MAX_BYTES} bytes")
    unpacker.finish()
    return bytes(body)
