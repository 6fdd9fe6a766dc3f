"""One request to a service: no redirect is followed, and the body is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from pipeline.steps.http.bounded_body import read_body
from pipeline.steps.http.client import HttpClient
from pipeline.steps.http.failure import failed, step_failures
from pipeline.steps.http.shown import shown
from queuemgr import AbortSignal

MAX_BYTES = 8 << 20
"""Bytes: far more than any record of these services."""


@dataclass(frozen=True)
class Reply:
    """The body of a successful response, or the URL the service redirects to."""

    body: bytes = b""
    moved_to: str = ""


def get(url: str, headers: dict[str, str], deadline: float, http: HttpClient, signal: AbortSignal) -> Reply:
    """Send a GET to a host the operator configured, and read its response within `deadline` seconds.

    Redirects are returned, not followed: each request must pass the service's rate limit, and a key
    must not be sent to another host. Raises Aborted, and StepFailed as in `http.failure`.
    """
    return http.run(_get(url, headers, deadline, http), signal)


def post_file(
    url: str, file: Path, fields: Mapping[str, str], deadline: float, http: HttpClient, signal: AbortSignal
) -> Reply:
    """Send a file, as `input` of a form with these fields, as `get` sends a GET."""
    return http.run(_post(url, file, fields, deadline, http), signal)


async def _get(url: str, headers: dict[str, str], deadline: float, http: HttpClient) -> Reply:
    with step_failures(url):
        async with asyncio.timeout(deadline), http.client.stream("GET", url, headers=headers) as response:
            return await _reply(response)


async def _post(url: str, file: Path, fields: Mapping[str, str], deadline: float, http: HttpClient) -> Reply:
    with step_failures(url), file.open("rb") as opened:
        files = {"input": ("paper.pdf", opened, "application/pdf")}
        async with (
            asyncio.timeout(deadline),
            http.client.stream("POST", url, data=fields, files=files) as response,
        ):
            return await _reply(response)


async def _reply(response: httpx.Response) -> Reply:
    if response.next_request is not None:
        return Reply(moved_to=str(response.next_request.url))
    if not response.is_success:
        raise failed(response.url, response)
    return Reply(await read_body(response, MAX_BYTES, shown(str(response.url))))
