"""The web server's time limits, and the threads of health checks."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from io import BytesIO
from typing import Any

import pytest

from queuemgr.local.private_servers import free_port
from queuemgr.web import server
from queuemgr.web.server import WebOptions, made_server

SOON = 20.0


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """Serve an application with these limits; returns the port."""
    monkeypatch.setattr(server, "STOP_SECONDS", 1)
    stack = ExitStack()

    def serve(application: Callable[..., Any], threads: int = 1, **limits: float) -> int:
        for name, value in limits.items():
            monkeypatch.setattr(server, name, value)
        monkeypatch.setattr(server, "LOOK_SECONDS", 0)
        made = made_server(application, WebOptions("127.0.0.1", free_port(), threads))
        thread = threading.Thread(target=made.asyncore.loop, kwargs={"timeout": 0.05, "map": made._map})
        thread.start()
        stack.callback(thread.join)
        # In the loop's own thread: it may be waiting for these sockets.
        stack.callback(made.trigger.pull_trigger, partial(made.asyncore.close_all, made._map))
        stack.callback(made.task_dispatcher.shutdown)
        return int(made.effective_port)

    with stack:
        yield serve


def hello(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Length", "2")])
    return [b"hi"]


def sent(port: int, text: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=SOON)
    client.sendall(text)
    return client


def is_ended(client: socket.socket) -> bool:
    with client:
        return client.recv(100) == b""


BODY = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nhalf of it"


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (b"", {"IDLE_SECONDS": 1}),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-Never: en", {"HEADER_SECONDS": 0.3}),
        (BODY, {"BODY_SECONDS": 0.3}),
    ],
    ids=["idle", "headers", "body"],
)
def test_a_client_that_has_had_its_time_is_disconnected(
    serving: Callable[..., int], text: bytes, limit: dict[str, float]
) -> None:
    assert is_ended(sent(serving(hello, **limit), text))


def test_a_slow_body_that_keeps_its_speed_is_answered(serving: Callable[..., int]) -> None:
    port = serving(hello, BODY_SECONDS=0, BODY_BYTES_A_SECOND=1)
    with sent(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n" + b"a" * 19) as client:
        with pytest.raises(TimeoutError):
            client.settimeout(1)
            client.recv(1)
        client.settimeout(SOON)
        client.sendall(b"a")
        assert client.recv(1000).startswith(b"HTTP/1.1 200")


def test_a_reader_who_takes_nothing_of_a_large_answer_gives_its_thread_back(
    serving: Callable[..., int],
) -> None:
    """The answer is larger than what is kept for a slow reader, so its thread waits; only so long."""

    def large(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ["PATH_INFO"] == "/small":
            return hello(environ, start_response)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (b"a" * 65536 for _ in range(400))

    port = serving(large, threads=1, IDLE_SECONDS=1, ANSWER_BYTES=1 << 20)
    with sent(port, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"):
        assert status(port, "/small") == 200


def test_health_checks_answer_while_every_page_thread_is_taken(serving: Callable[..., int]) -> None:
    """`/health/live` even while `/health/ready` waits, too."""
    waiting, go_on = threading.Semaphore(0), threading.Event()

    def stuck(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        if environ["PATH_INFO"] != "/health/live":
            waiting.release()
            go_on.wait(SOON)
        return hello(environ, start_response)

    port = serving(stuck, threads=2)
    paths = (b"/admin/", b"/admin/", b"/admin/", b"/health/ready")
    clients = [sent(port, b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path) for path in paths]
    for _ in range(3):
        assert waiting.acquire(timeout=SOON)
    assert status(port, "/health/live") == 200
    go_on.set()
    for client in clients:
        with client:
            assert client.recv(100).startswith(b"HTTP/1.1 200")


def status(port: int, path: str) -> int:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=SOON)
    try:
        client.request("GET", path)
        return client.getresponse().status
    finally:
        client.close()


def test_connections_are_kept_longer_than_proxies_and_clients_keep_them(serving: Callable[..., int]) -> None:
    assert server.IDLE_SECONDS == 75
    client = http.client.HTTPConnection("127.0.0.1", serving(hello), timeout=SOON)
    for _ in range(2):
        client.request("GET", "/")
        answer = client.getresponse()
        assert (answer.read(), answer.will_close) == (b"hi", False)
    client.close()


def test_the_access_log_has_no_query(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="queuemgr.web.server")
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/a\nb", "QUERY_STRING": "sig=secret",
               "wsgi.input": BytesIO(), "REMOTE_ADDR": "192.0.2.1"}  # fmt: skip
    server.logged(hello)(environ, lambda *_: None)
    (line,) = caplog.messages
    assert line.startswith("192.0.2.1 GET /a\\nb 200 ")
