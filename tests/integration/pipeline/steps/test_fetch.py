"""Downloads against a real server that misbehaves; what is kept is whole, checked and a PDF."""

from __future__ import annotations

import hashlib
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from pipeline.steps.fetch.fetch import NO_END, Fetched, fetch
from pipeline.steps.fetch.partial_file import PARTIAL_SUFFIX
from pipeline.steps.http.client import HttpClient
from pipeline.steps.http.failure import kind_of_status
from queuemgr.base.errors import StepFailed
from queuemgr.flows.abort_signal import NEVER
from tests.integration.pipeline.steps.downloads import HTML, LOCAL, refused
from tests.integration.pipeline.steps.faulty_server import FaultyServer, pdf

pytestmark = pytest.mark.usefixtures("loop_stays_quiet")


# What is kept


def test_a_pdf_is_kept_with_its_hash_and_size(faulty: FaultyServer, http: HttpClient, into: Path) -> None:
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
    """A real PDF typed as octet-stream, and one that begins late."""
    fetch(faulty.url("/pdf?type=application/octet-stream"), into, LOCAL, http, NEVER)
    assert fetch(faulty.url("/pdf?lead=900"), into, LOCAL, http, NEVER).size == 900 + 4096


def test_a_packed_body_of_the_packed_length_is_kept(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """The declared length is that of the gzip stream."""
    assert fetch(faulty.url("/gzip"), into, LOCAL, http, NEVER).path.read_bytes() == pdf()


def test_redirects_are_followed_and_the_last_url_returned(
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


@pytest.mark.parametrize(
    ("body", "kind", "message"),
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
    faulty: FaultyServer, http: HttpClient, into: Path, body: str, kind: str, message: str
) -> None:
    url = faulty.url(f"/body?type={kind}&text={quote(body)}&token=s3cret")
    failure = refused(url, into, http)
    assert failure.kind == "not_pdf"
    assert message in failure.message
    assert faulty.url("/body") in failure.message
    assert repr(body[:20].encode())[:-1] in failure.message
    assert "s3cret" not in failure.message


def test_a_login_page_behind_a_redirect_is_named_by_its_final_address(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    login = faulty.url(f"/body?text={quote(HTML, safe='')}")
    failure = refused(faulty.url(f"/to?url={quote(login, safe='')}"), into, http)
    assert failure.kind == "not_pdf"
    assert faulty.url("/body") in failure.message


# What is not whole


@pytest.mark.parametrize("path", ["/cut", "/cut-chunked", "/gzip-cut", "/reset", "/hang-up"])
def test_a_cut_off_download_is_never_kept(
    faulty: FaultyServer, http: HttpClient, into: Path, path: str
) -> None:
    failure = refused(faulty.url(path), into, http)
    assert failure.kind == "network"
    assert "cut off" in failure.message


def test_a_try_after_a_cut_off_one_succeeds(faulty: FaultyServer, http: HttpClient, into: Path) -> None:
    refused(faulty.url("/cut"), into, http)
    assert fetch(faulty.url("/pdf"), into, LOCAL, http, NEVER).size == 4096


def test_a_full_disk_is_a_storage_failure_and_leaves_no_file(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """The kernel refuses the write, by a file size limit in place of a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        failure = refused(faulty.url("/big?mib=2"), into, http)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failure.kind == "storage"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may mount no disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_fills_up_is_a_storage_failure_and_the_next_file_fits(
    faulty: FaultyServer, http: HttpClient, small_disk: Path
) -> None:
    """A disk that is really full."""
    assert refused(faulty.url("/big?mib=2"), small_disk, http).kind == "storage"
    assert fetch(faulty.url("/pdf"), small_disk, LOCAL, http, NEVER).size == 4096


KILLED = """
import sys
from pathlib import Path
from pipeline.steps.fetch.download import FetchOptions
from pipeline.steps.fetch.fetch import fetch
from pipeline.steps.http.client import HttpClient
from queuemgr import NEVER
fetch(sys.argv[1], Path(sys.argv[2]), FetchOptions(allow_private=True), HttpClient(), NEVER)
"""


def test_a_worker_killed_as_it_writes_leaves_no_file_that_could_be_taken_for_whole(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """What it left is named as a part, which `files.cleanup` clears, and the next try succeeds."""
    command = [sys.executable, "-c", KILLED, faulty.url("/stall-body"), str(into)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.getcwd()}) as worker:
        deadline = time.monotonic() + 60
        while not faulty.hits and time.monotonic() < deadline:
            time.sleep(0.05)
        worker.kill()
    assert [path.suffix for path in into.iterdir()] == [PARTIAL_SUFFIX]
    assert fetch(faulty.url("/pdf"), into, LOCAL, http, NEVER).size == 4096


def test_a_pdf_without_its_last_line_is_kept_with_a_warning(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """Readers open such files; on a fresh download it mostly means a cut nobody declared."""
    url = faulty.url("/body?text=%25PDF-1.7" + "x" * 3000)
    assert fetch(url, into, LOCAL, http, NEVER).note == NO_END
    assert fetch(faulty.url("/pdf"), into, LOCAL, http, NEVER).note == ""


def test_a_header_past_the_first_1024_bytes_is_no_pdfs(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    assert refused(faulty.url("/pdf?lead=1020"), into, http).kind == "not_pdf"


def test_a_missing_directory_is_a_storage_failure(
    faulty: FaultyServer, http: HttpClient, tmp_path: Path
) -> None:
    with pytest.raises(StepFailed) as failure:
        fetch(faulty.url("/pdf"), tmp_path / "absent", LOCAL, http, NEVER)
    assert failure.value.kind == "storage"


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
def test_a_retry_after_is_passed_on_in_either_form(
    faulty: FaultyServer, http: HttpClient, into: Path, status: int
) -> None:
    """Seconds, a date by the server's own clock, and the longer of two."""
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
