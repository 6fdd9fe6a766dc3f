"""A page instead of a PDF is followed to the PDF it names, once; each host only under its limit."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from pipeline.steps.fetch.download import FetchOptions, PdfRequest
from pipeline.steps.fetch.fetch import OtherHost, fetch
from pipeline.steps.http.client import HttpClient
from pipeline.steps.http.redirects import RedirectChain
from pipeline.steps.identify import host_key
from pipeline.steps.pdf import text_sandbox
from queuemgr.base.errors import Aborted, StepFailed
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from tests import sandbox_processes
from tests.integration.pipeline.steps.downloads import LOCAL, refused
from tests.integration.pipeline.steps.faulty_ranges import CUT_PAGE
from tests.integration.pipeline.steps.faulty_server import FaultyServer, pdf

pytestmark = pytest.mark.usefixtures("loop_stays_quiet")


def page(link: str, before: str = "", title: str = "Gates") -> str:
    """The path of a page that names this PDF."""
    tag = f'<meta content="{link}" name="citation_pdf_url">'
    text = f"<!DOCTYPE html><html><head><title>{title}</title>{before}{tag}</head><p>Abstract"
    return f"/body?type=text/html&text={quote(text, safe='')}"


@pytest.mark.parametrize("before", ["", "<!--" + "x" * 3000 + "-->"], ids=["short", "long"])
def test_a_page_is_followed_to_the_pdf_it_names(
    before: str, faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """Also found if the tag comes after the bytes by which a page is recognised."""
    got = fetch(faulty.url(page("/pdf?id=9", before)), into, LOCAL, http, NEVER)
    assert got.path.read_bytes() == pdf(name="9")
    assert got.final_url == faulty.url("/pdf?id=9")
    assert list(into.iterdir()) == [got.path]


def test_a_page_behind_a_redirect_names_its_pdf_by_its_own_address(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    url = faulty.url("/to?url=" + quote(faulty.url(page("pdf")), safe=""))
    assert fetch(url, into, LOCAL, http, NEVER).final_url == faulty.url("/pdf")


def test_a_page_named_by_a_page_is_not_followed(faulty: FaultyServer, http: HttpClient, into: Path) -> None:
    """At most one link, so that pages cannot lead on endlessly."""
    failure = refused(faulty.url(page(page("/pdf", title="Two"), title="One")), into, http)
    assert failure.kind == "not_pdf"
    assert "an HTML page titled 'Two'" in failure.message
    assert len(faulty.hits) == 2


def test_a_title_past_the_first_bytes_is_named_too(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    text = f"<!DOCTYPE html><script>{'x' * 2000}</script><title>Just a moment</title>"
    failure = refused(faulty.url(f"/body?text={quote(text)}"), into, http)
    assert "an HTML page titled 'Just a moment'" in failure.message


def test_a_page_that_breaks_off_says_what_it_can(faulty: FaultyServer, http: HttpClient, into: Path) -> None:
    assert fetch(faulty.url(CUT_PAGE), into, LOCAL, http, NEVER).size == 4096


@pytest.mark.parametrize("path", ["/endless-page", "/bomb-page"])
def test_a_page_without_end_is_read_so_far_and_no_further(
    path: str, faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    assert refused(faulty.url(path), into, http).kind == "not_pdf"


def test_a_link_to_a_private_address_is_not_followed(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    options = FetchOptions(trusted_hosts=frozenset({faulty.host}))
    with pytest.raises(StepFailed) as failure:
        fetch(faulty.url(page("http://169.254.169.254/a.pdf")), into, options, http, NEVER)
    assert failure.value.kind == "refused_address"


def test_a_landing_page_is_asked_for_as_a_page_and_its_pdf_as_a_pdf(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    fetch(PdfRequest(faulty.url(page("/pdf")), landing=True), into, LOCAL, http, NEVER)
    first, second = (seen["accept"].partition(",")[0] for seen in faulty.seen)
    assert (first, second) == ("text/html", "application/pdf")


# One host at a time


def test_a_redirect_to_another_host_is_returned_and_not_followed(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """Each request is made under the limit of its host."""
    away = f"http://localhost:{faulty.port}/pdf"
    url = faulty.url(f"/to?url={quote(away, safe='')}")
    chain = RedirectChain(host_key(url))
    assert fetch(url, into, LOCAL, http, NEVER, chain) == OtherHost(away, chain)
    assert (len(faulty.hits), list(into.iterdir())) == (1, [])
    assert fetch(away, into, LOCAL, http, NEVER, RedirectChain(host_key(away))).size == 4096


def test_a_pdf_named_on_another_host_is_returned_and_not_requested(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    away = f"http://localhost:{faulty.port}/pdf"
    url = faulty.url(page(away))
    found = fetch(url, into, LOCAL, http, NEVER, RedirectChain(host_key(url)))
    assert isinstance(found, OtherHost)
    assert (found.url, found.chain.from_page) == (away, True)
    assert (len(faulty.hits), list(into.iterdir())) == (1, [])


def test_redirects_count_on_through_hosts_and_cookies_go_along(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """The next run continues the chain that one run stored as JSON."""
    start = RedirectChain(host_key(faulty.url("/")))
    fetch(faulty.url("/give-cookie"), into, LOCAL, http, NEVER, start)
    context = start.to_context()
    assert (context["redirects"], context["from_page"]) == (1, False)
    later = RedirectChain.from_context(start.host, context)
    assert fetch(faulty.url("/want-cookie"), into, LOCAL, http, NEVER, later).size == 4096
    tired = RedirectChain.from_context(start.host, {**context, "redirects": 5})
    with pytest.raises(StepFailed, match="more than 5 redirects"):
        fetch(faulty.url("/loop"), into, LOCAL, http, NEVER, tired)


def test_cookies_of_any_size_do_not_grow_the_context() -> None:
    chain = RedirectChain()
    chain.cookies.set("a", "x" * 5000, "127.0.0.1", "/")
    assert chain.to_context()["cookies"] == []


def test_a_redirect_to_no_address_at_all_is_refused(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """With a chain bound to one host as well."""
    for target in ("file:///etc/passwd", "ftp://x.example/a", "http://a:b@x.example/"):
        url = faulty.url(f"/to?url={quote(target, safe='')}")
        with pytest.raises(StepFailed) as failure:
            fetch(url, into, LOCAL, http, NEVER, RedirectChain(host_key(url)))
        assert failure.value.kind == "refused_address"


SLEEPS = """
import time

def lines(job):
    time.sleep(30)
    yield {"result": ""}
"""


def test_a_cancel_ends_the_child_that_looks_for_a_link(
    faulty: FaultyServer, http: HttpClient, into: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "sleeps.py"
    script.write_text(SLEEPS)
    monkeypatch.setattr(text_sandbox, "TEXT_CHILD", script)
    signal = AbortSignal()
    before, readers = set(sandbox_processes.family()), set[psutil.Process]()

    def cancel_as_soon_as_it_reads() -> None:
        while not readers:
            readers.update(set(sandbox_processes.family()) - before)
            time.sleep(0.05)
        signal.abort("cancelled")

    canceller = threading.Thread(target=cancel_as_soon_as_it_reads)
    canceller.start()
    with pytest.raises(Aborted):
        fetch(faulty.url(page("/pdf")), into, LOCAL, http, signal)
    canceller.join()
    assert psutil.wait_procs(readers, timeout=2)[1] == []
