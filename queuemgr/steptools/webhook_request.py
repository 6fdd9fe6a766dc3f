"""One POST over HTTP: to an address that was checked, with no proxy, following no redirect, and reading no
more of the answer than its head.

With the standard library alone: webhooks work in an installation without extras.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from queuemgr.base.errors import StepFailed
from queuemgr.base.raised import type_name
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from queuemgr.steptools.retry_after import wait_in
from queuemgr.steptools.webhook_target import DEFAULT_PORTS, FAILED, Target

CONNECT_SHARE = 3.0
"""Seconds for each address but the last: a dead IPv6 route must not use up the whole time."""

MOST_ADDRESSES = 8
"""How many of a host's addresses are tried: an answer of the DNS may hold thousands."""


MOST_HEAD = 131_072
"""Bytes of an answer before its body, with the answers before it that say to continue: of these a receiver
may send any number, and reading them takes the worker's processor."""


class Answer(NamedTuple):
    """The status of an answer, and the seconds it asks us to wait, if it does."""

    status: int
    retry_after: float | None


def post(
    target: Target,
    addresses: Callable[[], Sequence[str]],
    headers: Mapping[str, str],
    body: bytes,
    seconds: float,
    signal: AbortSignal = NEVER,
) -> Answer:
    """`addresses` looks up those of the host and checks them. Raises `StepFailed` where no answer came within
    so many seconds, and `Aborted` as soon as the signal is set."""
    signal.raise_if_aborted()
    call = _Call(target, addresses, time.monotonic() + seconds)
    waiting = threading.Thread(target=call.run, args=(headers, body), name="webhook", daemon=True)
    with signal.hooked(call.cut):
        waiting.start()
        call.over.wait(seconds)
    call.cut()
    outcome = call.outcome
    signal.raise_if_aborted()
    if isinstance(outcome, Answer):
        return outcome
    if outcome is None or (_is_of_the_network(outcome) and time.monotonic() >= call.deadline):
        raise StepFailed(
            FAILED, f"{target.place}: gave no answer within {seconds:g} s", limit=target.limit
        ) from outcome
    if _is_of_the_network(outcome):
        raise StepFailed(FAILED, f"{target.place}: {_name(outcome)}", limit=target.limit) from outcome
    raise outcome


def _is_of_the_network(error: BaseException) -> bool:
    """Whether what the other side did, or did not do, is its cause; `ValueError`: a host that TLS refuses."""
    return isinstance(error, (OSError, http.client.HTTPException, ValueError))


def _name(error: BaseException) -> str:
    """What happened, without what the other side sent."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type_name(error)


@cache
def _tls() -> ssl.SSLContext:
    """Reading the certificates takes longer than a request."""
    return ssl.create_default_context()


class _Head:
    """The lines of an answer, up to `MOST_HEAD` bytes."""

    def __init__(self, file: Any) -> None:
        self._file, self._left = file, MOST_HEAD

    def readline(self, most: int) -> bytes:
        line = bytes(self._file.readline(most))
        self._left -= len(line)
        if self._left < 0:
            raise http.client.LineTooLong("head")
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _Response(http.client.HTTPResponse):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fp: Any = _Head(self.fp)


class _Call:
    """A request that runs in a thread of its own, and is left there when its time is over: nobody can break
    off a look-up of addresses, and a socket's own timeout starts again with each byte."""

    def __init__(self, target: Target, addresses: Callable[[], Sequence[str]], deadline: float) -> None:
        self.target, self.deadline, self.over = target, deadline, threading.Event()
        self.outcome: Answer | BaseException | None = None
        self._addresses, self._is_cut = addresses, False
        self._socket: socket.socket | None = None

    def run(self, headers: Mapping[str, str], body: bytes) -> None:
        try:
            self.outcome = self._send(headers, body)
        except BaseException as error:
            self.outcome = error
        finally:
            self.over.set()
            if connected := self._socket:
                connected.close()

    def _send(self, headers: Mapping[str, str], body: bytes) -> Answer:
        connection = http.client.HTTPConnection(self.target.host, self.target.port)
        if self.target.port == DEFAULT_PORTS[self.target.scheme]:
            connection.default_port = self.target.port  # else `Host` would name it
        connection.response_class = _Response
        connection.sock = self._connected()
        connection.request("POST", self.target.path, body=body, headers=dict(headers))
        response = connection.getresponse()
        waits = wait_in(response.headers, datetime.now(UTC))
        return Answer(response.status, waits)

    def _connected(self) -> socket.socket:
        plain = self._hold(self._reached())
        if self.target.scheme == "http":
            return plain
        secure = _tls().wrap_socket(plain, server_hostname=self.target.host, do_handshake_on_connect=False)
        self._hold(secure)
        secure.do_handshake()
        return secure

    def _reached(self) -> socket.socket:
        """Connected to the first of the addresses that answers."""
        *others, last = list(self._addresses())[:MOST_ADDRESSES]
        for address in others:
            with contextlib.suppress(OSError):
                return socket.create_connection((address, self.target.port), min(CONNECT_SHARE, self._left()))
        return socket.create_connection((last, self.target.port), self._left())

    def _left(self) -> float:
        """Raises `TimeoutError` once nobody waits for the answer."""
        left = self.deadline - time.monotonic()
        if self._is_cut or left <= 0:
            raise TimeoutError
        return left

    def _hold(self, connected: socket.socket) -> socket.socket:
        self._socket = connected
        connected.settimeout(self._left())
        return connected

    def cut(self) -> None:
        """Wait for it no longer."""
        self._is_cut = True
        self.over.set()
        if connected := self._socket:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
