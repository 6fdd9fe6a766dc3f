"""HTTP clients for many requests at once to one endpoint, on one event loop."""

from __future__ import annotations

import functools
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec

import httpx

if find_spec("sniffio") is None:
    # httpcore asks for it several times a request, and Python looks for a module that is not there in every
    # directory of its path each time: as long as all the rest of a request takes.
    sys.modules["sniffio"] = None  # type: ignore[assignment]  # what Python keeps for a module it must not look for


@functools.cache
def certificates() -> ssl.SSLContext:
    """The authorities that are trusted, read once: reading them takes longer than ten requests."""
    return httpx.create_ssl_context()


class Connections:
    """A client, with its connection, for each request under way, and used again by later ones. A pool looks
    through all of its connections several times a request. Must be entered, which closes them at the end."""

    def __init__(self, timeout: httpx.Timeout) -> None:
        self._timeout = timeout
        self._idle: list[httpx.AsyncClient] = []
        self._all = AsyncExitStack()

    async def __aenter__(self) -> Connections:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._all.aclose()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client that nothing else uses meanwhile."""
        client = self._idle.pop() if self._idle else await self._another()
        try:
            yield client
        finally:
            self._idle.append(client)

    async def _another(self) -> httpx.AsyncClient:
        return await self._all.enter_async_context(
            httpx.AsyncClient(timeout=self._timeout, verify=certificates())
        )
