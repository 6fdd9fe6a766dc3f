"""One client per process, which survives aborts, cancelled waits and forks, also with TLS."""

from __future__ import annotations

import asyncio
import os
import signal as signals
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pipeline.steps.fetch.download import FetchOptions
from pipeline.steps.fetch.fetch import fetch
from pipeline.steps.http.client import HttpClient, HttpOptions, shared
from queuemgr.base.errors import Aborted, StepFailed
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from tests.integration.pipeline.steps.downloads import LOCAL, refused
from tests.integration.pipeline.steps.faulty_server import FaultyServer, pdf

pytestmark = pytest.mark.usefixtures("loop_stays_quiet")


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
    assert time.monotonic() - began < 24.0
    assert list(into.iterdir()) == []
    timer.join()


def test_an_abort_before_the_start_sends_no_request(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    signal = AbortSignal()
    signal.abort("stopping")
    with pytest.raises(Aborted):
        fetch(faulty.url("/pdf"), into, LOCAL, http, signal)
    assert faulty.hits == []
    assert list(into.iterdir()) == []


class SoftLimit(Exception):
    """Raised in the waiting thread, like Celery's soft time limit."""


def test_an_exception_raised_in_the_waiting_thread_ends_the_download_too(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """A signal raises the soft time limit during the wait."""

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
    assert time.monotonic() - began < 24.0
    assert list(into.iterdir()) == []

    async def others() -> int:
        return len(asyncio.all_tasks() - {asyncio.current_task()})

    assert http.run(others(), NEVER) == 1, "only the client's own task is left"


def test_closing_the_client_stops_what_runs_and_the_next_use_starts_again(
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


@pytest.mark.slow_proof
def test_a_hundred_items_of_every_kind_share_one_client(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """Timeouts and failures break neither the loop nor the pool."""
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
    """A pool of 5; 200 downloads in bursts of 20, half of them cut; then 50 good ones."""
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
    assert time.monotonic() - began < 30.0
    client.close()


def burst_item(
    number: int, faulty: FaultyServer, into: Path, client: HttpClient, signal: AbortSignal
) -> None:
    """Odd items hang until the signal aborts them; even ones may succeed, or be aborted while they wait."""
    path = "/stall" if number % 2 else "/pdf"
    try:
        fetch(faulty.url(path), into, LOCAL, client, signal)
    except Aborted:
        return
    assert number % 2 == 0


def test_a_connection_closed_while_it_was_idle_costs_no_download(faulty: FaultyServer, into: Path) -> None:
    """Servers close idle connections at any time; a request on such a connection was never read."""
    client = HttpClient(HttpOptions(timeout=5.0))
    for _ in range(20):
        assert fetch(faulty.url("/pdf-and-close"), into, LOCAL, client, NEVER).size == 4096
    client.close()
    assert len(faulty.hits) == 20


FORKING = """
import os, sys, tempfile, warnings
from pathlib import Path
from pipeline.steps.fetch.download import FetchOptions
from pipeline.steps.fetch.fetch import fetch
from pipeline.steps.http.client import HttpClient
from queuemgr import NEVER

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


def self_signed(directory: Path) -> tuple[Path, Path]:
    """Files with a key and a certificate for 127.0.0.1, valid for two days."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (directory / "key.pem").write_bytes(key.private_bytes(pem, form, plain))
    (directory / "certificate.pem").write_bytes(certificate.public_bytes(pem))
    return directory / "key.pem", directory / "certificate.pem"


@contextmanager
def tls_server(directory: Path) -> Iterator[tuple[FaultyServer, Path]]:
    key, certificate = self_signed(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with FaultyServer(context) as server:
        yield server, certificate


def test_children_forked_after_the_first_use_get_their_own_answers(tmp_path: Path, into: Path) -> None:
    """8 children and their parent at once over TLS, each gets the answers to its own requests."""
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


def test_a_process_that_forgets_to_close_exits_silently(faulty: FaultyServer, into: Path) -> None:
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
