"""The web server: waitress, with time limits for slow clients and threads of their own for health checks.

One thread talks to every client; it passes a request on when the whole of it has come, and keeps an answer
until its reader has taken it. So a slow client costs a connection and never a thread that makes pages.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from django.core.servers.basehttp import get_internal_wsgi_application
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

from queuemgr.flows import callbacks
from queuemgr.worker import process_wide

logger = logging.getLogger(__name__)

IDLE_SECONDS = 75
"""Seconds a connection is kept between two requests, and without progress of an answer: longer than the
60 s after which proxies and clients with a pool commonly forget a connection."""

HEADER_SECONDS = 30
BODY_SECONDS = 60
BODY_BYTES_A_SECOND = 8 << 10
"""The headers of a request have 30 s to come; its body 60 s, and one more for each 8 KiB that has come."""

BODY_BYTES = 64 << 20
"""Largest body of a request; beyond 512 KiB it is kept in a file."""

ANSWER_BYTES = 256 << 20
"""How much of an answer is kept for a slow reader, beyond 1 MiB in a file, before its thread waits."""

LOOK_SECONDS = 5
"""Seconds between two looks for clients that have had their time."""

CONNECTIONS = 1000
SPARE_FILES = 100
"""File descriptors for databases, files and logs."""

SWITCH_SECONDS = 0.001
"""After how long a thread lets another one run Python. Threads that make pages compete with the one that
talks to clients, which needs a turn of its own a few times for every health check; Python's 5 ms add up."""

STOP_SECONDS = 25
"""Seconds that requests under way have to end after SIGTERM."""

END_SECONDS = 3
"""Seconds that requests under way have to end once a callback of a flow hangs."""

CALLBACK_HANGS = 75
"""Exit code (EX_TEMPFAIL) of a server with a callback of a flow that did not end, as of such a worker."""

OWN_THREADS: Mapping[str, str] = {
    "/health/live": "live",
    "/health/ready": "ready",
    "/health/progress": "ready",
    "/healthz": "ready",
}
"""Health checks and their threads: one answers without any dependency, the other may wait for some."""


class Request(HTTPRequestParser):  # type: ignore[misc]  # waitress has no types
    """A request that is coming in, and since when."""

    def __init__(self, adjustments: Adjustments) -> None:
        super().__init__(adjustments)
        self.began = time.monotonic()

    def is_too_slow(self, now: float) -> bool:
        allowed = HEADER_SECONDS
        if self.headers_finished:
            allowed = BODY_SECONDS + self.body_bytes_received // BODY_BYTES_A_SECOND
        return now - self.began > allowed


class Connection(HTTPChannel):  # type: ignore[misc]  # waitress has no types
    parser_class = Request

    def is_too_slow(self, now: float) -> bool:
        """Whether its client has had its time to send the request that is coming in, or takes nothing of
        an answer."""
        if self.request is not None and self.request.is_too_slow(now):
            return True
        unread: int = self.total_outbufs_len
        return bool(unread >= self.adj.send_bytes and time.time() - self.last_activity > IDLE_SECONDS)

    def end(self) -> None:
        """Have the loop close it. It would never look at a socket whose reader reads nothing, unless that is
        shut down."""
        self.will_close = True
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class Server(TcpWSGIServer):  # type: ignore[misc]  # waitress has no types
    channel_class = Connection

    def maintenance(self, now: float) -> None:
        """End the connections of clients that are idle or too slow."""
        super().maintenance(now)
        for connection in self.active_channels.values():
            if connection.is_too_slow(time.monotonic()):
                connection.end()


class Threads:
    """The threads that make pages, and the ones of health checks."""

    def __init__(self, pages: int) -> None:
        self._pages = _started(pages)
        self._own = {name: _started(1) for name in set(OWN_THREADS.values())}

    def add_task(self, connection: Any) -> None:
        name = OWN_THREADS.get(connection.requests[0].path)
        (self._own[name] if name else self._pages).add_task(connection)

    def shutdown(self) -> None:
        for threads in (self._pages, *self._own.values()):
            threads.shutdown(timeout=STOP_SECONDS)


def _started(count: int) -> Any:
    threads = ThreadedTaskDispatcher()
    threads.set_thread_count(count)
    return threads


@dataclass(frozen=True)
class WebOptions:
    """Where to listen, and how many threads make pages."""

    host: str
    port: int
    threads: int
    access_log: bool = False


def serve(options: WebOptions) -> None:
    """Serve Django's WSGI application until SIGTERM or SIGINT. Raises `OSError` if it cannot listen."""
    signal.signal(signal.SIGTERM, _stop)
    sys.setswitchinterval(SWITCH_SECONDS)
    callbacks.when_one_hangs(_end)
    process_wide.remember_start()
    process_wide.ignore_stray_signals()
    application = get_internal_wsgi_application()
    server = made_server(logged(application) if options.access_log else application, options)
    server.run()


def made_server(application: Callable[..., Any], options: WebOptions) -> Any:
    adjustments = Adjustments(
        host=options.host,
        port=options.port,
        threads=options.threads,
        ident="",
        connection_limit=_connection_limit(),
        asyncore_use_poll=True,  # select() knows no file descriptor above 1,023
        channel_timeout=IDLE_SECONDS,
        cleanup_interval=LOOK_SECONDS,
        max_request_body_size=BODY_BYTES,
        outbuf_high_watermark=ANSWER_BYTES,
        log_socket_errors=False,
        clear_untrusted_proxy_headers=False,  # Django decides, by SLUICE_BEHIND_TLS_PROXY
    )
    return Server(application, dispatcher=Threads(options.threads), adj=adjustments)


def logged(application: Callable[..., Any]) -> Callable[..., Any]:
    """The application with a log line for each request, without its query, which may hold a signature."""

    def call(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        began = time.monotonic()

        def start(status: str, *rest: Any) -> Any:
            logger.info(
                "%s %s %s %s %.0f ms",
                environ.get("REMOTE_ADDR"),
                environ["REQUEST_METHOD"],
                ascii(environ.get("PATH_INFO", ""))[1:-1],
                status[:3],
                1000 * (time.monotonic() - began),
            )
            return start_response(status, *rest)

        return application(environ, start)

    return call


def _connection_limit() -> int:
    """As many as there may be, and as files may be open; connections beyond it wait to be accepted."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + SPARE_FILES
    allowed = wanted if most == resource.RLIM_INFINITY else min(most, wanted)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    return max(SPARE_FILES, allowed - SPARE_FILES)


def _end() -> None:
    """A page waits for a callback of a flow for ever, and its thread with it: end, and be started anew."""
    time.sleep(END_SECONDS)
    os._exit(CALLBACK_HANGS)


def _stop(number: int, frame: object) -> NoReturn:
    raise SystemExit(0)
