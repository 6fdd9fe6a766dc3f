"""The request of a webhook: where it may go, how long it may take, what of an answer is believed."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from queuemgr.base.errors import Aborted, BadInput, StepFailed
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.scheduling import claims
from queuemgr.steptools import webhook_request, webhook_target
from queuemgr.steptools.special_addresses import IPV4_BLOCKS
from queuemgr.steptools.webhook_target import Target
from tests.integration.pipeline.steps.test_http_client import tls_server
from tests.webhook_receiver import Receiver, receiver


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as state:
        yield state


def post(url: str, seconds: float = 20.0, signal: AbortSignal | None = None) -> webhook_request.Answer:
    target = webhook_target.parse(url, allow_private=True)
    addresses = partial(webhook_target.addresses_of, target, allow_private=True)
    return webhook_request.post(target, addresses, {"x": "y"}, b"{}", seconds, signal or AbortSignal())


def test_the_status_is_read_and_no_redirect_is_followed(there: Receiver) -> None:
    there.answers, there.headers = [307], {"Location": there.url, "Retry-After": "7"}
    assert post(there.url) == (307, 7.0)
    assert len(there.requests) == 1


@pytest.mark.parametrize("first", ["10.0.0.1", "169.254.169.254", "127.0.0.1", "::1", "fd00:ec2::254"])
def test_an_address_that_is_private_is_refused_also_among_public_ones(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [(0, 0, 0, "", (address, 443)) for address in ("93.184.216.34", first)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)
    target = webhook_target.parse("https://hooks.example/", allow_private=False)
    with pytest.raises(StepFailed, match="private or local") as refused:
        webhook_target.addresses_of(target, allow_private=False)
    assert refused.value.kind == "webhook_refused"


@pytest.mark.parametrize("block", [block for block, _ in IPV4_BLOCKS])
def test_no_address_of_a_special_block_is_reached_however_a_url_spells_it(block: str) -> None:
    address = block.partition("/")[0]
    number = int.from_bytes(socket.inet_aton(address))
    for host in (address, str(number), hex(number), f"[::ffff:{address}]"):
        target = webhook_target.parse(f"https://{host}/", allow_private=False)
        try:
            webhook_target.addresses_of(target, allow_private=False)
        except StepFailed as refused:
            assert refused.kind in ("webhook_refused", "webhook_failed")
        else:
            raise AssertionError(f"{host} was let through")


def test_the_connection_goes_to_the_address_that_was_checked(there: Receiver) -> None:
    target = Target("http", "rebound.example", there.port, "/hooks")
    answer = webhook_request.post(target, lambda: ["127.0.0.1"], {}, b"{}", 20)
    assert answer.status == 204
    assert there.requests[0].headers["host"] == f"rebound.example:{there.port}"


def test_no_proxy_of_the_environment_is_used(there: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    assert post(there.url).status == 204


def test_a_receiver_that_sends_a_byte_at_a_time_is_given_up_in_time(there: Receiver) -> None:
    there.answers = ["stall"]
    with pytest.raises(StepFailed, match=r"no answer within 0\.3 s") as late:
        post(there.url, seconds=0.3)
    assert late.value.kind == "webhook_failed"


def test_a_delivery_is_broken_off_when_its_worker_stops(there: Receiver) -> None:
    there.answers, signal = ["stall"], AbortSignal()

    def stop() -> None:
        while not there.requests:
            time.sleep(0.01)
        signal.abort("shutdown")

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(Aborted):
        post(there.url, seconds=60, signal=signal)
    stopping.join()


STALLS: dict[str, Callable[[threading.Event, int], list[str]]] = {
    "a name that is looked up for ever": lambda released, port: ["::1"] * released.wait(60),
    "a host that answers nothing": lambda released, port: ["127.0.0.1"],
}


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("ends", ["its time is over", "it is cancelled"])
def test_no_host_holds_a_delivery_up_wherever_it_stalls(stall: str, ends: str) -> None:
    """Not that it was fast: each of these would take a minute, or for ever."""
    released, signal = threading.Event(), AbortSignal()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        target = Target("https", "slow.example", port, "/")
        addresses = partial(STALLS[stall], released, port)
        is_cancelled = ends == "it is cancelled"
        if is_cancelled:
            threading.Timer(0.2, signal.abort, ["cancelled"]).start()
        with pytest.raises(Aborted if is_cancelled else StepFailed) as ended:
            webhook_request.post(target, addresses, {}, b"{}", 600 if is_cancelled else 0.3, signal)
    released.set()
    for thread in threading.enumerate():
        if thread.name == "webhook":
            thread.join(30)
    assert is_cancelled or "no answer within 0.3 s" in str(ended.value)


def test_of_a_host_of_thousands_of_addresses_a_few_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def refuse(address: tuple[str, int], seconds: float) -> None:
        tried.append(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refuse)
    found = [f"198.51.100.{number % 250}" for number in range(4000)]
    with pytest.raises(StepFailed, match=r"many\.example:443: ConnectionRefusedError"):
        webhook_request.post(Target("https", "many.example", 443, "/"), lambda: found, {}, b"{}", 60)
    assert tried == found[: webhook_request.MOST_ADDRESSES]


def test_nobody_there_is_a_failure_that_names_host_and_port_only() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(StepFailed, match=f"127.0.0.1:{port}: ") as failed:
        post(f"http://127.0.0.1:{port}/path?token=s3cret")
    assert "s3cret" not in str(failed.value) and "path" not in str(failed.value)


FAILURES: dict[str, Iterable[bytes]] = {
    "no HTTP": [b"SSH-2.0-x\r\n"],
    "nothing": [],
    "a hundred thousand headers": [b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000],
    "headers of megabytes": [b"HTTP/1.1 200 OK\r\n" + (b"a: " + b"b" * 60_000 + b"\r\n") * 90],
    "continue, without end": itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "a line without end": itertools.repeat(b"H" * 60_000),
    "a status of words": [b"HTTP/1.1 OK 200\r\n\r\n"],
}


@pytest.mark.parametrize("said", FAILURES.values(), ids=FAILURES)
def test_an_answer_that_is_no_http_and_one_without_end_are_failures(said: Iterable[bytes]) -> None:
    with listening(said) as port, pytest.raises(StepFailed, match=f"127.0.0.1:{port}: "):
        post(f"http://127.0.0.1:{port}/", seconds=60)


BODIES: dict[str, Iterable[bytes]] = {
    "without end": itertools.chain([b"\r\n"], itertools.repeat(b"x" * 60_000)),
    "in chunks without end": itertools.chain(
        [b"Transfer-Encoding: chunked\r\n\r\n"], itertools.repeat(b"5\r\nxxxxx\r\n")
    ),
    "packed": [b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"0" * 1_000_000)],
    "of a length that is no number": [b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n"],
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_no_body_of_an_answer_is_read(body: Iterable[bytes]) -> None:
    with listening(itertools.chain([b"HTTP/1.1 204 x\r\n"], body)) as port:
        assert post(f"http://127.0.0.1:{port}/").status == 204


WAITS: list[tuple[bytes, float | None]] = [
    (b"7", 7.0), (b"-5", 0.0), (b"nan", None), (b"inf", None), (b"1e9", None), (b"9" * 60_000, None),
    (b"9" * 15, None), (b"Fri, 31 Dec 9999 23:59:59 GMT", None), (b"Fri, 31 Dec 0001 01:00 +999999999", None),
    (b"(" * 60_000, None), (b"1:" * 30_000, None), (b'"\\' * 30_000, None), (b"Wed, " * 12_000, None),
    (b"=?utf-8?q?a?= " * 4000, None), (b"\xff\xfe", None), ("\u0661\u0662".encode(), None), (b"\x00", None),
]  # fmt: skip


@pytest.mark.parametrize(("said", "waits"), WAITS, ids=range(len(WAITS)))
def test_a_retry_after_is_a_time_that_can_be_waited_for_or_nothing(said: bytes, waits: float | None) -> None:
    with listening([b"HTTP/1.1 503 x\r\nRetry-After: " + said + b"\r\n\r\n"]) as port:
        assert post(f"http://127.0.0.1:{port}/") == (503, waits)


def test_what_does_not_speak_tls_is_a_failure() -> None:
    with listening([b"not tls at all\r\n"]) as port, pytest.raises(StepFailed) as failed:
        post(f"https://127.0.0.1:{port}/")
    assert failed.value.kind == "webhook_failed"


def test_a_certificate_that_nobody_signed_is_refused(tmp_path: Path) -> None:
    with tls_server(tmp_path) as (server, _), pytest.raises(StepFailed, match="certificate") as failed:
        post(server.url("/"))
    assert failed.value.kind == "webhook_failed"


class listening:
    """A server that says this to whoever connects, whatever it is asked."""

    def __init__(self, said: Iterable[bytes]) -> None:
        self._said, self._socket = said, socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> int:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return int(self._socket.getsockname()[1])

    def _run(self) -> None:
        connected, _ = self._socket.accept()
        with connected:
            connected.recv(1000)
            with contextlib.suppress(OSError):
                for piece in self._said:
                    connected.sendall(piece)

    def __exit__(self, *error: Any) -> None:
        self._thread.join()
        self._socket.close()


@pytest.mark.parametrize(
    "url", ["", "https://", "//host", "https://a b", "https://h\n.example", "javascript:alert(1)"]
)
def test_what_is_no_address_is_refused_in_a_sentence(url: str) -> None:
    with pytest.raises(BadInput, match="a webhook's URL"):
        webhook_target.parse(url, allow_private=True)


HOSTS = [
    "a" * 300, ".".join(["a" * 63] * 15), "a" * 990, ".".join("a" * 120), "x" * 241, "x" * 242, "*", "a*",
    "fleet", "phase:prep", "a=2", "a,b", "%s", "{host}", "[::1]", "[fe80::1%25eth0]", ".a", "a.", "a..b", "-",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_the_limit_of_any_host_that_is_accepted_is_one_that_rows_hold(host: str) -> None:
    try:
        target = webhook_target.parse(f"https://{host}/", allow_private=True)
    except BadInput:
        return
    assert claims.as_text([target.limit, "webhooks"]) == f"{target.limit} webhooks"
