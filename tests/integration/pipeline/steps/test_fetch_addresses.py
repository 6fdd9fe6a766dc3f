"""Only public addresses are connected to, whatever a URL, a redirect or a name server says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pipeline.steps.fetch.download import FetchOptions
from pipeline.steps.fetch.fetch import fetch
from pipeline.steps.http.client import HttpClient
from pipeline.steps.http.safe_addresses import is_public
from queuemgr.flows.abort_signal import NEVER
from tests.integration.pipeline.steps.downloads import CLOSED, LOCAL, refused
from tests.integration.pipeline.steps.faulty_server import FaultyServer

pytestmark = pytest.mark.usefixtures("loop_stays_quiet")


class Forbidden:
    """A listener that must not be reached; it counts connections."""

    def __init__(self) -> None:
        self.hits = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection:
                if connection.recv(4) == b"stop":
                    return
                self.hits += 1

    def close(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b"stop")
        self._thread.join()
        self._socket.close()


@pytest.fixture
def forbidden() -> Iterator[Forbidden]:
    listener = Forbidden()
    yield listener
    listener.close()


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:{port}/",
        "http://127.0.0.1:{port}/",
        "http://127.1:{port}/",
        "http://2130706433:{port}/",
        "http://0x7f000001:{port}/",
        "http://0:{port}/",
        "http://[::1]:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://[64:ff9b::7f00:1]:{port}/",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/",
        "http://[fd00::1]/",
        "http://[fe80::1]/",
        "http://8.8.8.8@127.0.0.1:{port}/",
        "file:///etc/passwd",
        "ftp://127.0.0.1:{port}/",
        "gopher://127.0.0.1:{port}/",
        "http://",
        "not a url",
    ],
)
def test_no_spelling_of_a_private_address_is_reached(
    http: HttpClient, into: Path, forbidden: Forbidden, url: str
) -> None:
    failure = refused(url.format(port=forbidden.port), into, http, CLOSED)
    assert failure.kind == "refused_address"
    assert forbidden.hits == 0


@pytest.mark.parametrize("target", ["http://127.0.0.1:{port}/", "file:///etc/passwd"])
def test_a_redirect_to_a_private_address_is_not_followed(
    faulty: FaultyServer, http: HttpClient, into: Path, forbidden: Forbidden, target: str
) -> None:
    """The first host is allowed by name, the second is not."""
    options = FetchOptions(trusted_hosts=frozenset({faulty.host}))
    place = quote(target.format(port=forbidden.port), safe="")
    failure = refused(faulty.url(f"/to?url={place}"), into, http, options)
    assert failure.kind == "refused_address"
    assert (len(faulty.hits), forbidden.hits) == (1, 0)


def test_a_proxy_named_in_the_environment_is_not_used(
    faulty: FaultyServer, into: Path, forbidden: Forbidden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would resolve names itself, bypassing our check."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{forbidden.port}")
    client = HttpClient()
    fetch(faulty.url("/pdf"), into, LOCAL, client, NEVER)
    client.close()
    assert forbidden.hits == 0


def answer_lookups(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
    """DNS answers for `paper.test`, one per lookup."""
    real, left = socket.getaddrinfo, list(answers)

    def look_up(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host not in (b"paper.test", "paper.test"):
            return real(host, port, *args, **kwargs)
        family = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*family, (address, port)) for address in left.pop(0)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def test_the_connection_goes_to_the_address_that_was_checked(
    faulty: FaultyServer, http: HttpClient, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is resolved only once, since a second answer may differ."""
    answer_lookups(monkeypatch, ["127.0.0.1"], ["127.0.0.9"])
    fetch(f"http://paper.test:{faulty.port}/pdf", into, LOCAL, http, NEVER)
    assert faulty.seen[0]["host"] == f"paper.test:{faulty.port}"


def test_one_private_address_among_public_ones_is_refused(
    http: HttpClient, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A public name resolving to 10.x."""
    answer_lookups(monkeypatch, ["8.8.8.8", "10.1.2.3"])
    failure = refused("http://paper.test/x.pdf", into, http, CLOSED)
    assert failure.kind == "refused_address"
    assert "paper.test has one that is private or local" in failure.message
    assert "10.1.2.3" not in failure.message, "which addresses an internal name has is nobody's business"


def test_the_next_address_is_tried_when_one_does_not_answer(
    faulty: FaultyServer, http: HttpClient, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_lookups(monkeypatch, ["127.0.0.7", "127.0.0.1"])
    url = f"http://paper.test:{faulty.port}/pdf?second"
    client = HttpClient()
    assert fetch(url, into, LOCAL, client, NEVER).size == 4096
    client.close()


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::808:808", True),
        ("10.0.0.1", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("127.0.0.1", False),
        ("0.0.0.0", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("192.0.2.1", False),
        ("::", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fec0::1", False),
        ("fd00::1", False),
        ("ff02::1", False),
        ("::ffff:10.0.0.1", False),
        ("2002:7f00:1::", False),
        ("64:ff9b::a00:1", False),
    ],
)
def test_only_addresses_of_the_open_internet_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public
