"""Downloads against a real server that misbehaves; what is kept is whole, checked and a PDF."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import signal as signals
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pipeline.steps.addresses import is_public
from pipeline.steps.download import FetchOptions
from pipeline.steps.fetch import Fetched, adopt, fetch
from pipeline.steps.http import HttpClient, HttpOptions, shared
from pipeline.steps.http_failure import kind_of_status
from pipeline.steps.inflate import PIECE, Unpacker
from queuemgr.abort import NEVER, AbortSignal
from queuemgr.errors import Aborted, StepFailed
from queuemgr.retry import POLICIES
from tests.integration.steps.faulty_server import MIB, FaultyServer, bomb, pdf

pytestmark = pytest.mark.usefixtures("loop_stays_quiet")

LOCAL = FetchOptions(allow_private=True, deadline=20.0)
CLOSED = FetchOptions(deadline=20.0)


@pytest.fixture
def into(tmp_path: Path) -> Iterator[Path]:
    """A directory for temporary files; whatever a test left there, it must have been given."""
    directory = tmp_path / "parts"
    directory.mkdir()
    yield directory


def refused(
    url: str,
    into: Path,
    http: HttpClient,
    options: FetchOptions = LOCAL,
    signal: AbortSignal = NEVER,
) -> StepFailed:
    """The failure of a download that must fail, and must leave nothing behind."""
    with pytest.raises(StepFailed) as failure:
        fetch(url, into, options, http, signal)
    assert list(into.iterdir()) == []
    assert failure.value.kind in POLICIES
    return failure.value


# What is kept


def test_a_pdf_is_kept_with_its_hash_and_size(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    fetched = fetch(faulty.url("/pdf?id=7"), into, LOCAL, http, NEVER)
    content = fetched.path.read_bytes()
    assert content == pdf(name="7")
    assert fetched == Fetched(
        path=fetched.path,
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        final_url=faulty.url("/pdf?id=7"),
        content_type="application/pdf",
    )
    assert list(into.iterdir()) == [fetched.path]
    assert faulty.seen[0]["user-agent"] == "Sluicegate-tests/1.0"


def test_a_pdf_is_known_by_its_bytes_whatever_the_server_calls_it(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """P6-04: a real PDF typed as octet-stream, and one that begins late."""
    fetch(faulty.url("/pdf?type=application/octet-stream"), into, LOCAL, http, NEVER)
    assert fetch(faulty.url("/pdf?lead=900"), into, LOCAL, http, NEVER).size == 900 + 4096


def test_a_packed_body_of_the_packed_length_is_kept(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """P6-06: the declared length is that of the gzip stream."""
    assert fetch(faulty.url("/gzip"), into, LOCAL, http, NEVER).path.read_bytes() == pdf()


def test_redirects_are_followed_and_the_last_address_told(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    target = quote(faulty.url("/pdf"), safe="")
    fetched = fetch(faulty.url(f"/to?url={target}"), into, LOCAL, http, NEVER)
    assert fetched.final_url == faulty.url("/pdf")


def test_cookies_live_as_long_as_one_chain_of_redirects(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    assert fetch(faulty.url("/give-cookie"), into, LOCAL, http, NEVER).size == 4096
    with pytest.raises(StepFailed, match="Cookies needed"):
        fetch(faulty.url("/want-cookie"), into, LOCAL, http, NEVER)


# What is not a PDF

HTML = "<!DOCTYPE html><html><title>Sign\n in</title>" + "<p>" * 900


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (HTML, "application/pdf", "an HTML page titled 'Sign in'"),
        (HTML, "text/html", "an HTML page titled 'Sign in'"),
        ('{"error": "no"}', "application/json", "JSON"),
        ("", "application/pdf", "an empty body"),
        ("no such paper", "text/plain", "plain text"),
        ("%!PS-Adobe-3.0", "application/pdf", "PostScript"),
    ],
)
def test_what_is_no_pdf_is_refused_and_described(
    faulty: FaultyServer, http: HttpClient, into: Path, body: str, kind: str, words: str
) -> None:
    """P6-04."""
    url = faulty.url(f"/body?type={kind}&text={quote(body)}&token=s3cret")
    failure = refused(url, into, http)
    assert failure.kind == "not_pdf"
    assert words in failure.message
    assert faulty.url("/body") in failure.message
    assert repr(body[:20].encode())[:-1] in failure.message
    assert "s3cret" not in failure.message


def test_a_login_page_behind_a_redirect_is_named_by_its_final_address(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """P6-04."""
    login = faulty.url(f"/body?text={quote(HTML, safe='')}")
    failure = refused(faulty.url(f"/to?url={quote(login, safe='')}"), into, http)
    assert failure.kind == "not_pdf"
    assert faulty.url("/body") in failure.message


# What is not whole


@pytest.mark.parametrize("path", ["/cut", "/cut-chunked", "/gzip-cut", "/reset", "/hang-up"])
def test_a_cut_off_download_is_never_kept(
    faulty: FaultyServer, http: HttpClient, into: Path, path: str
) -> None:
    """P6-06."""
    failure = refused(faulty.url(path), into, http)
    assert failure.kind == "network"
    assert "cut off" in failure.message


def test_a_try_after_a_cut_off_one_succeeds(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """P6-06."""
    refused(faulty.url("/cut"), into, http)
    assert fetch(faulty.url("/pdf"), into, LOCAL, http, NEVER).size == 4096


def test_a_full_disk_is_a_storage_failure_and_leaves_no_file(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """P6-06: the kernel refuses the write, by a file size limit in place of a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        failure = refused(faulty.url("/big?mib=2"), into, http)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failure.kind == "storage"


def test_a_missing_directory_is_a_storage_failure(
    faulty: FaultyServer, http: HttpClient, tmp_path: Path
) -> None:
    with pytest.raises(StepFailed) as failure:
        fetch(faulty.url("/pdf"), tmp_path / "absent", LOCAL, http, NEVER)
    assert failure.value.kind == "storage"


# What is too much


@pytest.mark.parametrize("path", ["/bomb", "/bomb?twice=1", "/endless"])
def test_a_small_answer_cannot_grow_past_the_limit(
    faulty: FaultyServer, http: HttpClient, into: Path, path: str
) -> None:
    """P6-08: 5 GiB in 5 MB, the same packed twice, and a body without end."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    options = FetchOptions(allow_private=True, max_bytes=100 * MIB)
    failure = refused(faulty.url(path), into, http, options)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert failure.kind == "too_large"
    assert grown < 64 * 1024, f"memory grew by {grown} KiB"


def test_a_large_pdf_under_the_limit_is_kept(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """P6-08: 60 MB under a limit of 100 MB."""
    options = FetchOptions(allow_private=True, max_bytes=100 * MIB)
    assert fetch(faulty.url("/big?mib=60"), into, options, http, NEVER).size == 60 * MIB


def test_a_declared_length_past_the_limit_ends_it_at_once(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    options = FetchOptions(allow_private=True, max_bytes=MIB)
    failure = refused(faulty.url("/big?mib=60"), into, http, options)
    assert failure.kind == "too_large"
    assert str(60 * MIB) in failure.message


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip", "gzip, gzip, gzip, gzip"])
def test_an_encoding_that_is_not_read_is_a_bad_answer(
    faulty: FaultyServer, http: HttpClient, into: Path, encoding: str
) -> None:
    """P6-08: brotli was not asked for; the others are damaged or absurd."""
    assert refused(faulty.url(f"/packed?as={quote(encoding)}"), into, http).kind == "bad_answer"


def test_unpacking_gives_small_pieces_and_every_byte() -> None:
    """P6-08."""
    unpacker, size = Unpacker("gzip"), 0
    for piece in unpacker.feed(bomb(1)):
        assert len(piece) <= PIECE
        size += len(piece)
    assert size == 2048 + 64 * MIB


# What takes too long


@pytest.mark.parametrize("path", ["/stall", "/stall-body", "/drip", "/drip-head"])
def test_a_server_that_never_ends_meets_the_deadline(
    faulty: FaultyServer, http: HttpClient, into: Path, path: str
) -> None:
    """P6-09: one byte at a time never trips the time-out of a single read."""
    began = time.monotonic()
    options = FetchOptions(allow_private=True, deadline=0.8)
    assert refused(faulty.url(path), into, http, options).kind == "timeout"
    assert time.monotonic() - began < 3.0


def test_a_silent_server_meets_the_time_out_of_one_read(faulty: FaultyServer, into: Path) -> None:
    """P6-09."""
    client = HttpClient(HttpOptions(timeout=0.3))
    assert refused(faulty.url("/stall"), into, client).kind == "timeout"
    client.close()


def test_a_redirect_loop_ends(faulty: FaultyServer, http: HttpClient, into: Path) -> None:
    """P6-09: endless redirects."""
    failure = refused(faulty.url("/loop"), into, http)
    assert failure.kind == "http_error"
    assert "redirects more than 5 times" in failure.message
    assert len(faulty.hits) == 6


# What the server says no to


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "http_error"),
        (403, "http_error"),
        (404, "not_found"),
        (408, "server_error"),
        (410, "not_found"),
        (425, "server_error"),
        (429, "rate_limited"),
        (500, "server_error"),
        (503, "server_error"),
        (304, "http_error"),
    ],
)
def test_a_status_is_a_kind_of_failure(
    faulty: FaultyServer, http: HttpClient, into: Path, status: int, kind: str
) -> None:
    failure = refused(faulty.url(f"/status?code={status}"), into, http)
    assert (failure.kind, failure.http_status) == (kind, status)
    assert failure.retry_after is None
    assert kind_of_status(status) == kind


@pytest.mark.parametrize("status", [429, 503])
def test_a_wait_asked_for_is_passed_on_in_either_form(
    faulty: FaultyServer, http: HttpClient, into: Path, status: int
) -> None:
    """P3-08, P3-09: seconds, a date by the server's own clock, and the longer of two."""
    date = quote("Sun, 01 Mar 2026 12:00:00 GMT")
    then = quote("Sun, 01 Mar 2026 13:00:00 GMT")
    path = f"/status?code={status}&date={date}"
    assert refused(faulty.url(f"{path}&retry-after=90"), into, http).retry_after == 90.0
    assert refused(faulty.url(f"{path}&retry-after={then}"), into, http).retry_after == 3600.0
    both = refused(faulty.url(f"{path}&retry-after=5&retry-after=7"), into, http)
    assert both.retry_after == 7.0
    assert refused(faulty.url(f"{path}&retry-after=soon"), into, http).retry_after is None


def test_a_refused_connection_is_a_network_failure(http: HttpClient, into: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    assert refused(f"http://127.0.0.1:{port}/", into, http).kind == "network"


def test_a_name_without_address_is_a_network_failure(http: HttpClient, into: Path) -> None:
    assert refused("http://no-such-host.invalid/x.pdf", into, http).kind == "network"


# What may not be reached


class Forbidden:
    """A listener nobody may reach: it counts who did."""

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
    """P6-10."""
    failure = refused(url.format(port=forbidden.port), into, http, CLOSED)
    assert failure.kind == "refused_address"
    assert forbidden.hits == 0


@pytest.mark.parametrize("target", ["http://127.0.0.1:{port}/", "file:///etc/passwd"])
def test_a_redirect_to_a_private_address_is_not_followed(
    faulty: FaultyServer, http: HttpClient, into: Path, forbidden: Forbidden, target: str
) -> None:
    """P6-10: the first host is allowed by name, the second is not."""
    options = FetchOptions(trusted_hosts=frozenset({faulty.host}))
    place = quote(target.format(port=forbidden.port), safe="")
    failure = refused(faulty.url(f"/to?url={place}"), into, http, options)
    assert failure.kind == "refused_address"
    assert (len(faulty.hits), forbidden.hits) == (1, 0)


def test_a_proxy_named_in_the_environment_is_not_used(
    faulty: FaultyServer, into: Path, forbidden: Forbidden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6-10: it would look names up itself, past our check."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{forbidden.port}")
    client = HttpClient()
    fetch(faulty.url("/pdf"), into, LOCAL, client, NEVER)
    client.close()
    assert forbidden.hits == 0


def answer_lookups(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
    """Name service for `paper.test`: the first answer to the first question, and so on."""
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
    """P6-10: a name that answers otherwise the second time is never asked a second time."""
    answer_lookups(monkeypatch, ["127.0.0.1"], ["127.0.0.9"])
    fetch(f"http://paper.test:{faulty.port}/pdf", into, LOCAL, http, NEVER)
    assert faulty.seen[0]["host"] == f"paper.test:{faulty.port}"


def test_one_private_address_among_public_ones_is_refused(
    http: HttpClient, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6-10: a public name resolving to 10.x."""
    answer_lookups(monkeypatch, ["8.8.8.8", "10.1.2.3"])
    failure = refused("http://paper.test/x.pdf", into, http, CLOSED)
    assert failure.kind == "refused_address"
    assert "10.1.2.3" in failure.message


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
    """P6-10."""
    assert is_public(address) is public


# Abort


@pytest.mark.parametrize("path", ["/stall", "/stall-body", "/drip", "/endless"])
def test_an_abort_ends_a_download_at_once_and_leaves_no_file(
    faulty: FaultyServer, http: HttpClient, into: Path, path: str
) -> None:
    signal = AbortSignal()
    timer = threading.Timer(0.3, signal.abort, ["lease lost"])
    timer.start()
    began = time.monotonic()
    with pytest.raises(Aborted, match="lease lost"):
        fetch(faulty.url(path), into, FetchOptions(2**40, 20.0, True), http, signal)
    assert time.monotonic() - began < 2.0
    assert list(into.iterdir()) == []
    timer.join()


def test_an_abort_before_the_start_asks_nobody(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    signal = AbortSignal()
    signal.abort("stopping")
    with pytest.raises(Aborted):
        fetch(faulty.url("/pdf"), into, LOCAL, http, signal)
    assert faulty.hits == []
    assert list(into.iterdir()) == []


class SoftLimit(Exception):
    """Raised in the waiting thread, as a soft time limit is."""


def test_an_exception_raised_in_the_waiting_thread_ends_the_download_too(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """P6-02: a soft time limit is raised by a signal, in the midst of the wait."""

    def expire(*args: object) -> None:
        raise SoftLimit

    before = signals.signal(signals.SIGALRM, expire)
    signals.setitimer(signals.ITIMER_REAL, 0.3)
    began = time.monotonic()
    try:
        with pytest.raises(SoftLimit):
            fetch(faulty.url("/stall-body"), into, LOCAL, http, NEVER)
    finally:
        signals.signal(signals.SIGALRM, before)
    assert time.monotonic() - began < 2.0
    assert list(into.iterdir()) == []

    async def others() -> int:
        return len(asyncio.all_tasks() - {asyncio.current_task()})

    assert http.run(others(), NEVER) == 1, "only the client's own task is left"


def test_closing_the_client_ends_what_runs_and_the_next_use_starts_anew(
    faulty: FaultyServer, into: Path
) -> None:
    client = HttpClient()
    fetch(faulty.url("/pdf"), into, LOCAL, client, NEVER)
    timer = threading.Timer(0.3, client.close)
    timer.start()
    with pytest.raises(Aborted, match="closed"):
        fetch(faulty.url("/stall"), into, LOCAL, client, NEVER)
    timer.join()
    fetch(faulty.url("/pdf"), into, LOCAL, client, NEVER)
    client.close()


# One client, one loop, one process


def test_a_hundred_items_of_every_kind_share_one_client(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """P6-01: time-outs and failures in between never cost the loop or the pool."""
    brief = FetchOptions(allow_private=True, deadline=0.05)
    for item in range(100):
        if item % 10 == 3:
            assert refused_here(faulty.url("/stall"), into, http, brief) == "timeout"
        elif item % 10 == 7:
            assert refused_here(faulty.url("/cut"), into, http, LOCAL) == "network"
        else:
            got = fetch(faulty.url(f"/pdf?id={item}"), into, LOCAL, http, NEVER)
            assert got.path.read_bytes() == pdf(name=str(item))


def refused_here(url: str, into: Path, http: HttpClient, options: FetchOptions) -> str:
    with pytest.raises(StepFailed) as failure:
        fetch(url, into, options, http, NEVER)
    return failure.value.kind


def test_cancelled_downloads_give_their_connections_back(faulty: FaultyServer, into: Path) -> None:
    """P6-02: a pool of 5; 200 downloads in bursts of 20, half of them cut; then 50 good ones."""
    client = HttpClient(HttpOptions(max_connections=5, max_keepalive=5, timeout=5.0))
    with ThreadPoolExecutor(20) as threads:
        for burst in range(10):
            signal = AbortSignal()
            timer = threading.Timer(0.01 * burst, signal.abort, ["cut"])
            timer.start()
            one = partial(burst_item, faulty=faulty, into=into, client=client, signal=signal)
            list(threads.map(one, range(20)))
            timer.join()
        began = time.monotonic()
        urls = [faulty.url(f"/pdf?id={n}") for n in range(50)]
        list(threads.map(lambda url: fetch(url, into, LOCAL, client, NEVER), urls))
    assert time.monotonic() - began < 4.0
    client.close()


def burst_item(
    number: int, faulty: FaultyServer, into: Path, client: HttpClient, signal: AbortSignal
) -> None:
    """Odd items hang until the signal cuts them; even ones may end well, or be cut as they wait."""
    path = "/stall" if number % 2 else "/pdf"
    try:
        fetch(faulty.url(path), into, LOCAL, client, signal)
    except Aborted:
        return
    assert number % 2 == 0


FORKING = """
import os, sys, tempfile, warnings
from pathlib import Path
from pipeline.steps.download import FetchOptions
from pipeline.steps.fetch import fetch
from pipeline.steps.http import HttpClient
from queuemgr.abort import NEVER

base, into = sys.argv[1], Path(sys.argv[2])
client, options = HttpClient(), FetchOptions(allow_private=True)

def item(name):
    got = fetch(f"{base}/pdf?id={name}", into, options, client, NEVER)
    assert f"%{name}".encode() in got.path.read_bytes(), name

def child(number):
    try:
        for n in range(50):
            item(f"{number}-{n}-")
        client.close()
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(1)

item("parent-before-")
children = []
for number in range(8):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        child(number)
    children.append(pid)
for n in range(50):
    item(f"parent-{n}-")
assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 8
item("parent-after-")
client.close()
"""


@contextmanager
def tls_server(directory: Path) -> Iterator[tuple[FaultyServer, Path]]:
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-keyout", str(key), "-out", str(certificate), "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with FaultyServer(context) as server:
        yield server, certificate


def test_children_forked_after_the_first_use_get_their_own_answers(
    tmp_path: Path, into: Path
) -> None:
    """P6-03: 8 children and their parent at once, kept-alive TLS, each answer its own item's."""
    with tls_server(tmp_path) as (server, certificate):
        ended = subprocess.run(
            [sys.executable, "-W", "error", "-c", FORKING, server.url(""), str(into)],
            env={**os.environ, "SSL_CERT_FILE": str(certificate), "PYTHONPATH": os.getcwd()},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(list(into.iterdir())) == 8 * 50 + 52


def test_a_server_that_cannot_prove_its_name_is_refused_once_and_for_all(
    tmp_path: Path, http: HttpClient, into: Path
) -> None:
    with tls_server(tmp_path) as (server, _):
        failure = refused(server.url("/pdf"), into, http)
    assert failure.kind == "refused_address"
    assert "CERTIFICATE_VERIFY_FAILED" in failure.message


def test_the_shared_client_is_one_for_equal_options() -> None:
    assert shared(HttpOptions()) is shared(HttpOptions(max_connections=128))


def test_a_process_that_forgets_to_close_ends_without_a_word(
    faulty: FaultyServer, into: Path
) -> None:
    script = FORKING.partition("def item")[0].replace("HttpClient()", "shared(HttpOptions())")
    script = script.replace("import HttpClient", "import HttpOptions, shared")
    script += "\nfetch(f'{base}/pdf', into, options, client, NEVER)\n"
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, faulty.url(""), str(into)],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


# The user's own files


def test_a_file_of_the_user_is_copied_and_never_touched(tmp_path: Path, into: Path) -> None:
    original = tmp_path / "my paper.pdf"
    original.write_bytes(pdf(3 * MIB))
    adopted = adopt(original, into, FetchOptions())
    assert adopted.path.read_bytes() == original.read_bytes() == pdf(3 * MIB)
    assert adopted.size == 3 * MIB
    assert adopted.sha256 == hashlib.sha256(pdf(3 * MIB)).hexdigest()
    assert adopted.final_url == original.as_uri()


def test_a_file_passes_the_checks_of_a_download(tmp_path: Path, into: Path) -> None:
    page, large, pipe = tmp_path / "page.pdf", tmp_path / "large.pdf", tmp_path / "pipe.pdf"
    page.write_text(HTML)
    large.write_bytes(pdf(2 * MIB))
    os.mkfifo(pipe)
    limit = FetchOptions(max_bytes=MIB)
    expected = [(page, "not_pdf"), (large, "too_large"), (pipe, "not_found")]
    expected += [(tmp_path, "not_found"), (tmp_path / "absent.pdf", "not_found")]
    for path, kind in expected:
        with pytest.raises(StepFailed) as failure:
            adopt(path, into, limit)
        assert failure.value.kind == kind
        assert str(path) in failure.value.message
    assert list(into.iterdir()) == []


def test_an_abort_ends_a_copy(tmp_path: Path, into: Path) -> None:
    original, signal = tmp_path / "paper.pdf", AbortSignal()
    original.write_bytes(pdf())
    signal.abort("stopping")
    with pytest.raises(Aborted):
        adopt(original, into, FetchOptions(), signal)
    assert list(into.iterdir()) == []
