"""No download takes more bytes, memory or time than allowed."""

from __future__ import annotations

import resource
import socket
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pipeline.steps.fetch.download import FetchOptions
from pipeline.steps.fetch.fetch import fetch
from pipeline.steps.http.client import HttpClient, HttpOptions
from pipeline.steps.http.decompress import PIECE, Decompressor
from pipeline.steps.http.minimum_speed import MinimumSpeed
from queuemgr.flows.abort_signal import NEVER
from tests.integration.pipeline.steps.downloads import LOCAL, refused
from tests.integration.pipeline.steps.faulty_server import MIB, FaultyServer, bomb

pytestmark = pytest.mark.usefixtures("loop_stays_quiet")


# What is too much


@pytest.mark.parametrize("path", ["/bomb", "/bomb?twice=1", "/endless"])
def test_a_small_answer_cannot_grow_past_the_limit(
    faulty: FaultyServer, http: HttpClient, into: Path, path: str
) -> None:
    """5 GiB in 5 MB, the same compressed twice, and an endless body."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    options = FetchOptions(allow_private=True, max_bytes=100 * MIB)
    failure = refused(faulty.url(path), into, http, options)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert failure.kind == "too_large"
    assert grown < 64 * 1024, f"memory grew by {grown} KiB"


def test_a_large_pdf_under_the_limit_is_kept(faulty: FaultyServer, http: HttpClient, into: Path) -> None:
    """60 MB under a limit of 100 MB."""
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
    """Brotli was not requested; the others are damaged or absurd."""
    assert refused(faulty.url(f"/packed?as={quote(encoding)}"), into, http).kind == "bad_answer"


def test_unpacking_gives_small_pieces_and_every_byte() -> None:
    decompressor, size = Decompressor("gzip"), 0
    for piece in decompressor.feed(bomb(1)):
        assert len(piece) <= PIECE
        size += len(piece)
    assert size == 2048 + 64 * MIB


# What takes too long


@pytest.mark.parametrize("path", ["/stall", "/stall-body", "/drip", "/drip-head"])
def test_an_endless_response_ends_at_the_deadline(
    faulty: FaultyServer, http: HttpClient, into: Path, path: str
) -> None:
    """One byte at a time never exceeds the timeout of a single read."""
    began = time.monotonic()
    options = FetchOptions(allow_private=True, deadline=0.8)
    assert refused(faulty.url(path), into, http, options).kind == "timeout"
    assert time.monotonic() - began < 30


def test_a_silent_server_ends_at_the_read_timeout(faulty: FaultyServer, into: Path) -> None:
    client = HttpClient(HttpOptions(timeout=0.3))
    assert refused(faulty.url("/stall"), into, client).kind == "timeout"
    client.close()


def test_a_redirect_loop_ends(faulty: FaultyServer, http: HttpClient, into: Path) -> None:
    """Endless redirects."""
    failure = refused(faulty.url("/loop"), into, http)
    assert failure.kind == "http_error"
    assert "more than 5 redirects" in failure.message
    assert len(faulty.hits) == 6


# What is too slow


def test_a_body_below_the_least_speed_ends_long_before_the_deadline(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """Some 200 bytes a second, each read in time."""
    options = FetchOptions(allow_private=True, deadline=60, speed=MinimumSpeed(10_000, 0.5))
    began = time.monotonic()
    failure = refused(faulty.url("/slow?bytes=10"), into, http, options)
    assert failure.kind == "timeout"
    assert "the minimum is 10000 bytes a second" in failure.message
    assert time.monotonic() - began < 30


def test_a_body_that_stalls_after_a_good_start_is_too_slow(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """Bytes before the span do not count."""
    options = FetchOptions(allow_private=True, deadline=60, speed=MinimumSpeed(1000, 0.5))
    assert "bytes in 0.5 s" in refused(faulty.url("/stall-body"), into, http, options).message


def test_a_slow_body_above_the_least_speed_is_kept(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """Over several spans, each of which meets its quota."""
    options = FetchOptions(allow_private=True, speed=MinimumSpeed(200, 1.0))
    assert fetch(faulty.url("/slow?bytes=100&times=50"), into, options, http, NEVER).size == 5000


def test_any_speed_is_enough_without_a_minimum(faulty: FaultyServer, http: HttpClient, into: Path) -> None:
    options = FetchOptions(allow_private=True, deadline=1.0, speed=MinimumSpeed(0, 0.1))
    assert "total time allowed" in refused(faulty.url("/drip"), into, http, options).message


def test_a_slow_name_server_ends_at_the_deadline_and_others_continue(
    faulty: FaultyServer, http: HttpClient, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow DNS."""
    real, answer = socket.getaddrinfo, threading.Event()

    def look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host == b"slow.test":
            answer.wait(30)
        return real(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    brief = FetchOptions(allow_private=True, deadline=0.5)
    try:
        assert refused("http://slow.test/a.pdf", into, http, brief).kind == "timeout"
        assert fetch(faulty.url("/pdf"), into, LOCAL, http, NEVER).size == 4096
    finally:
        answer.set()
