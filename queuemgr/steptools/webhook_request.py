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
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

from queuemgr.base.errors import StepFailed
from queuemgr.base.raised import type_name
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from queuemgr.steptools.retry_after import retry_after_seconds
from queuemgr.steptools.webhook_target import DEFAULT_PORTS, FAILED, Target

CONNECT_SHARE = 3.0
"""Seconds for each address but the last: a dead IPv6 route must not use up the whole time."""


class Answer(NamedTuple):
    """The status of an answer, and the seconds it asks us to wait, if it does."""

    status: int
    retry_after: float | None


def post(
    target: Target,
    addresses: Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    seconds: float,
    signal: AbortSignal = NEVER,
) -> Answer:
    """Raises `StepFailed` where no answer came within so many seconds, `Aborted` when the signal is set."""
    signal.raise_if_aborted()
    call = _Call(target, addresses, time.monotonic() + seconds)
    timer = threading.Timer(seconds, call.cut)
    timer.daemon = True
    with signal.hooked(call.cut):
        timer.start()
        try:
            answer = call.send(headers, body)
        except (OSError, http.client.HTTPException) as error:
            signal.raise_if_aborted()
            late = time.monotonic() >= call.deadline
            why = f"gave no answer within {seconds:g} s" if late else f"{_name(error)}"
            raise StepFailed(FAILED, f"{target.place}: {why}", limit=target.limit) from error
        finally:
            timer.cancel()
            call.close()
    return answer


def _name(error: Exception) -> str:
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


class _Call:
    """A connection that another thread may cut: a socket's own timeout starts again with each byte."""

    def __init__(self, target: Target, addresses: Sequence[str], deadline: float) -> None:
        self.target, self.addresses, self.deadline = target, addresses, deadline
        self._socket: socket.socket | None = None
        self._is_cut = False

    def send(self, headers: Mapping[str, str], body: bytes) -> Answer:
        connection = http.client.HTTPConnection(self.target.host, self.target.port)
        if self.target.port == DEFAULT_PORTS[self.target.scheme]:
            connection.default_port = self.target.port  # else `Host` would name it
        connection.sock = self._connected()
        connection.request("POST", self.target.path, body=body, headers=dict(headers))
        response = connection.getresponse()
        waits = retry_after_seconds(response.getheader("Retry-After"), datetime.now(UTC))
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
        *others, last = self.addresses
        for address in others:
            with contextlib.suppress(OSError):
                return socket.create_connection((address, self.target.port), min(CONNECT_SHARE, self._left()))
        return socket.create_connection((last, self.target.port), self._left())

    def _left(self) -> float:
        return max(0.01, self.deadline - time.monotonic())

    def _hold(self, connected: socket.socket) -> socket.socket:
        connected.settimeout(self._left())
        self._socket = connected
        if self._is_cut:
            self.cut()
        return connected

    def cut(self) -> None:
        self._is_cut = True
        if connected := self._socket:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._socket:
            self._socket.close()
