"""httpx's transport with two changes: it connects to checked addresses, and queues by itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar

import httpcore
import httpx

KEEPALIVE_EXPIRY = 15.0
"""Seconds an idle connection is kept."""

CONNECT_SHARE = 5.0
"""Seconds for each address but the last: a dead IPv6 route must not use up the whole timeout."""

_checked: ContextVar[tuple[str, ...]] = ContextVar("checked", default=())


@contextlib.contextmanager
def only_to(addresses: Sequence[str]) -> Iterator[None]:
    """Within the block, this task's new connections go to these addresses only."""
    token = _checked.set(tuple(addresses))
    try:
        yield
    finally:
        _checked.reset(token)


class CheckedTransport(httpx.AsyncHTTPTransport):
    """A connection pool with a semaphore in front, so that no request queues inside the pool.

    httpcore can leak a connection when a request is cancelled while queued for it, until the pool is
    full of leaked ones.
    """

    def __init__(self, max_connections: int, max_keepalive: int) -> None:
        context = httpx.create_ssl_context()
        super().__init__(verify=context)
        # httpx has no public way to set a network backend; a test notices if this one breaks.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=None,
            max_keepalive_connections=max_keepalive,
            keepalive_expiry=KEEPALIVE_EXPIRY,
            network_backend=_CheckedBackend(),
        )
        self._free = asyncio.Semaphore(max_connections)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self._free.acquire()
        try:
            response = await super().handle_async_request(request)
        except BaseException:
            self._free.release()
            raise
        response.stream = _ReleasingStream(response.stream, self._free.release)
        return response


class _ReleasingStream(httpx.AsyncByteStream):
    """A body that releases the semaphore when it is closed."""

    def __init__(self, stream: object, release: Callable[[], None]) -> None:
        if not isinstance(stream, httpx.AsyncByteStream):
            raise TypeError(f"an async transport returned a stream of type {type(stream)}")
        self._stream = stream
        self._release: Callable[[], None] | None = release

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece

    async def aclose(self) -> None:
        release, self._release = self._release, None
        try:
            await self._stream.aclose()
        finally:
            if release is not None:
                release()


class _CheckedBackend(httpcore.AnyIOBackend):
    """Connects to the addresses that were checked: a second lookup might return others.

    TLS still verifies the name, and the pool still keeps connections by name.
    """

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        *others, last = _checked.get() or (host,)
        for address in others:
            share = min(CONNECT_SHARE, timeout or CONNECT_SHARE)
            with contextlib.suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await super().connect_tcp(address, port, share, local_address, socket_options)
        return await super().connect_tcp(last, port, timeout, local_address, socket_options)
