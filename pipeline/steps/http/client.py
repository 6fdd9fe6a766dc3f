"""One HTTP client per worker process, on one event loop in a background thread.

Worker threads pass it coroutines with `HttpClient.run`. An httpx client must not be used from a second
loop or on both sides of a fork, so loop, thread and client are created together on first use, once
for each process id.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import logging
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Generic, TypeVar

import httpx

from pipeline.steps.http.failure import failed
from pipeline.steps.http.redirects import RedirectChain
from pipeline.steps.http.safe_addresses import Reach, allowed_addresses
from pipeline.steps.http.transport import CheckedTransport, only_to
from queuemgr import Aborted, AbortSignal

T = TypeVar("T")


@dataclass(frozen=True)
class HttpOptions:
    """Pool sizes; `timeout` in seconds for each connect, read and write.

    Many hosts refuse a library's default `user_agent`: it should name the service and a contact, as in
    `Sluicegate/1.0 (mailto:papers@example.org)`. `io_threads`: threads for DNS lookups; `file_threads`:
    threads that write files.
    """

    max_connections: int = 128
    max_keepalive: int = 64
    timeout: float = 60.0
    user_agent: str = "Sluicegate/1.0"
    io_threads: int = 16
    file_threads: int = 16


@functools.cache
def shared(options: HttpOptions) -> HttpClient:
    """The client every step of this process uses; closed when the interpreter exits."""
    client = HttpClient(options)
    atexit.register(client.close)
    return client


class HttpClient:
    """Runs HTTP coroutines on this process's loop, called from any thread."""

    def __init__(self, options: HttpOptions | None = None) -> None:
        self.options = options or HttpOptions()
        # Engines of a parent process stay referenced on purpose: finalizing one in the child would
        # remove its sockets from the epoll set that both processes share.
        self._engines: dict[int, _Engine] = {}
        self._locks: dict[int, threading.Lock] = {}

    @property
    def client(self) -> httpx.AsyncClient:
        """This process's httpx client, for coroutines passed to `run`. It follows no redirects."""
        return self._engine().client

    def run(self, work: Coroutine[Any, Any, T], signal: AbortSignal) -> T:
        """Run `work` on the loop and block until it has ended, including its clean-up.

        Raises Aborted if the signal fires first (the coroutine is cancelled), and whatever the
        coroutine raises. Never call it from the loop's own thread.
        """
        try:
            signal.raise_if_aborted()
            call = self._engine().start(work)
        except BaseException:
            work.close()
            raise
        with signal.hooked(call.cancel):
            return _outcome(call, signal)

    @asynccontextmanager
    async def opened(
        self,
        url: str,
        reach: Reach,
        headers: dict[str, str] | None = None,
        chain: RedirectChain | None = None,
        also: Collection[int] = (),
    ) -> AsyncIterator[httpx.Response]:
        """A successful response to a GET, body unread, redirects followed and each hop checked.

        Statuses in `also` count as success. Raises StepFailed, and HostChanged if the chain is bound
        to one host and leaves it; httpx's own exceptions are left to `step_failures`.
        """
        engine, chain = self._engine(), chain or RedirectChain()
        request: httpx.Request | None = engine.client.build_request("GET", url, headers=headers)
        while request is not None:
            response = await engine.hop(request, reach, chain.cookies)
            try:
                request = response.next_request
                if request is not None:
                    chain.redirected(request.url)
                elif response.is_success or response.status_code in also:
                    yield response
                else:
                    raise failed(response.url, response)
            finally:
                await response.aclose()

    def close(self) -> None:
        """Cancel what runs, close every connection, stop the thread. The next use starts a new one."""
        engine = self._engines.get(os.getpid())
        if engine is not None and engine.alive:
            engine.stop()

    def _engine(self) -> _Engine:
        pid = os.getpid()
        # One lock per process: one held during a fork would stay locked in the child.
        with self._locks.setdefault(pid, threading.Lock()):
            engine = self._engines.get(pid)
            if engine is None or not engine.alive:
                engine = self._engines[pid] = _Engine(self.options)
            return engine


class _Engine:
    """A loop, its thread and its client: alive from construction until `stop`."""

    client: httpx.AsyncClient

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._closing = False
        # Separate from the loop's own threads, so that slow name servers do not delay file writes.
        self._lookups = ThreadPoolExecutor(options.io_threads, thread_name_prefix="http-lookup")
        ready: Future[None] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(ready)), name="http-loop", daemon=True
        )
        self._thread.start()
        ready.result()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self, work: Coroutine[Any, Any, T]) -> _Call[T]:
        with self._lock:
            if self._closing:
                raise Aborted("the HTTP client was closed")
            call = _Call(self._loop, work)
            self._loop.call_soon_threadsafe(call.begin)
            return call

    def stop(self) -> None:
        with self._lock:
            if not self._closing:
                self._closing = True
                self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()
        self._lookups.shutdown(wait=False, cancel_futures=True)

    async def hop(self, request: httpx.Request, reach: Reach, cookies: httpx.Cookies) -> httpx.Response:
        """Send one request of a redirect chain to a checked address."""
        addresses = await allowed_addresses(request.url, reach, self._lookups)
        cookies.set_cookie_header(request)
        with only_to(addresses):
            response = await self._send(request)
        cookies.extract_cookies(response)
        return response

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Send a GET; again if it went out on a kept-alive connection the server had already closed.

        The server never read such a request. On a new connection the same error counts.
        """
        while True:
            connected: list[str] = []
            request.extensions["trace"] = _record_connects(connected)
            try:
                return await self.client.send(request, stream=True)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                if connected:
                    raise

    async def _serve(self, ready: Future[None]) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        writers = ThreadPoolExecutor(self._options.file_threads, thread_name_prefix="http-file")
        self._loop.set_default_executor(writers)
        try:
            self.client = _new_client(self._options)
        except BaseException as error:
            ready.set_exception(error)
            return
        async with self.client:
            ready.set_result(None)
            await self._stopped.wait()
            await _cancel_others()


def _record_connects(connected: list[str]) -> Callable[[str, Any], Awaitable[None]]:
    """An httpcore trace callback that records each new connection."""

    async def record(event: str, info: Any) -> None:
        if event == "connection.connect_tcp.started":
            connected.append(event)

    return record


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class _Call(Generic[T]):
    """A coroutine on the loop whose result another thread waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> None:
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self.outcome: Future[T] = Future()

    def begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._set_outcome)

    def cancel(self) -> None:
        """Cancel the task, from any thread. `begin` was queued first, so there is one."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the task with it
            self._loop.call_soon_threadsafe(lambda: self._task and self._task.cancel())

    def _set_outcome(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.outcome.cancel()
            self.outcome.set_running_or_notify_cancel()  # else `wait` is never notified
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


def _outcome(call: _Call[T], signal: AbortSignal) -> T:
    try:
        return call.outcome.result()
    except CancelledError:
        raise Aborted(signal.reason or "the HTTP client was closed") from None
    except Exception:
        signal.raise_if_aborted()
        raise
    finally:
        # Celery raises its soft time limit in this thread, during the wait.
        if not call.outcome.done():
            call.cancel()
            wait([call.outcome])


def _new_client(options: HttpOptions) -> httpx.AsyncClient:
    # At INFO httpx logs whole URLs, including signed links and contact addresses.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return httpx.AsyncClient(
        transport=CheckedTransport(options.max_connections, options.max_keepalive),
        # Waiting for a free connection is bounded by each caller's deadline, not by this.
        timeout=httpx.Timeout(options.timeout, pool=None),
        headers={"User-Agent": options.user_agent, "Accept-Encoding": "gzip, deflate"},
        # Cookies must not leak from one document to the next: `opened` keeps a jar per chain.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        # A proxy from the environment would resolve names itself, bypassing our address check.
        trust_env=False,
    )
