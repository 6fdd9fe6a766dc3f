"""No download takes more bytes, more memory or more time than it may."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from pipeline.steps.download import FetchOptions
from pipeline.steps.fetch import fetch
from pipeline.steps.http import HttpClient, HttpOptions
from pipeline.steps.inflate import PIECE, Unpacker
from queuemgr.abort import NEVER
from tests.integration.steps.downloads import refused
from tests.integration.steps.faulty_server import MIB, FaultyServer, bomb

pytestmark = pytest.mark.usefixtures("loop_stays_quiet")


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
