"""Where a PDF is: by rule, on disk, or asked of services that answer, refuse or fall silent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.steps.http import HttpClient
from pipeline.steps.identify import identify
from pipeline.steps.resolve import Resolved, ResolveOptions, resolve
from queuemgr.abort import NEVER, AbortSignal
from queuemgr.errors import Aborted, StepFailed
from tests.integration.steps.faulty_server import FaultyServer

pytestmark = pytest.mark.usefixtures("loop_stays_quiet")

DOI = identify("10.1000/182")
UNPAYWALL, CROSSREF = "/v2/10.1000%2F182", "/works/10.1000%2F182"


@pytest.fixture
def options(faulty: FaultyServer) -> Iterator[ResolveOptions]:
    yield ResolveOptions(
        contact_email="papers@example.org",
        unpaywall_url=faulty.url("/"),
        crossref_url=faulty.url(""),
        deadline=5.0,
    )


def failure_of(options: ResolveOptions, http: HttpClient) -> StepFailed:
    with pytest.raises(StepFailed) as failure:
        resolve(DOI, options, http, NEVER)
    return failure.value


def crossref(*links: dict[str, str], title: Any = ("A  paper",)) -> dict[str, Any]:
    return {"message": {"title": list(title), "link": list(links)}}


def link(url: str, kind: str = "application/pdf", use: str = "text-mining") -> dict[str, str]:
    return {"URL": url, "content-type": kind, "intended-application": use}


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("2101.00001v2", "https://export.arxiv.org/pdf/2101.00001v2"),
        ("2101.00001", "https://export.arxiv.org/pdf/2101.00001"),
        ("hep-th/9901001", "https://export.arxiv.org/pdf/hep-th/9901001"),
        ("math.GT/0309136v3", "https://export.arxiv.org/pdf/math/0309136v3"),
    ],
)
def test_an_arxiv_paper_is_found_by_rule(http: HttpClient, text: str, url: str) -> None:
    assert resolve(identify(text), ResolveOptions(), http, NEVER) == Resolved(
        url, None, "", "arxiv"
    )


def test_the_arxiv_host_is_a_setting(http: HttpClient) -> None:
    mirror = ResolveOptions(arxiv_url="http://mirror.example/")
    found = resolve(identify("2101.00001"), mirror, http, NEVER)
    assert found.pdf_url == "http://mirror.example/pdf/2101.00001"


def test_a_url_is_its_own_place(http: HttpClient) -> None:
    found = resolve(identify("https://example.org/x.pdf"), ResolveOptions(), http, NEVER)
    assert found == Resolved("https://example.org/x.pdf", None, "", "url")


def test_a_file_must_be_there(http: HttpClient, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    with pytest.raises(StepFailed, match=str(path)) as failure:
        resolve(identify(str(path)), ResolveOptions(), http, NEVER)
    assert failure.value.kind == "not_found"
    path.write_bytes(b"%PDF")
    found = resolve(identify(str(path)), ResolveOptions(), http, NEVER)
    assert found == Resolved(None, str(path), "", "file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read_is_named(http: HttpClient, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.touch(mode=0)
    with pytest.raises(StepFailed, match="may not be read"):
        resolve(identify(str(path)), ResolveOptions(), http, NEVER)


def test_the_best_open_copy_is_taken_from_unpaywall(
    faulty: FaultyServer, options: ResolveOptions, http: HttpClient
) -> None:
    record = {
        "title": "On\n Sluices\x00",
        "best_oa_location": {"url_for_pdf": "https://repo.example/a.pdf"},
        "oa_locations": [{"url_for_pdf": "https://repo.example/b.pdf"}],
    }
    faulty.put(UNPAYWALL, record)
    found = resolve(DOI, options, http, NEVER)
    assert found == Resolved("https://repo.example/a.pdf", None, "On Sluices", "unpaywall")
    assert faulty.hits == [f"{UNPAYWALL}?email=papers%40example.org"]


def test_another_open_copy_will_do(
    faulty: FaultyServer, options: ResolveOptions, http: HttpClient
) -> None:
    locations = [None, {"url_for_pdf": None}, {"url_for_pdf": "https://repo.example/b.pdf"}]
    faulty.put(UNPAYWALL, {"best_oa_location": None, "oa_locations": locations})
    assert resolve(DOI, options, http, NEVER).pdf_url == "https://repo.example/b.pdf"


def test_crossref_is_asked_next_and_links_for_checkers_come_last(
    faulty: FaultyServer, options: ResolveOptions, http: HttpClient
) -> None:
    faulty.put(UNPAYWALL, {"title": "By Unpaywall", "best_oa_location": None})
    links = [
        link("https://pub.example/checker.pdf", use="similarity-checking"),
        link("https://pub.example/x.xml", kind="text/xml"),
        link("https://pub.example/x.pdf"),
    ]
    faulty.put(CROSSREF, crossref(*links))
    found = resolve(DOI, options, http, NEVER)
    assert found == Resolved("https://pub.example/x.pdf", None, "By Unpaywall", "crossref")
    assert faulty.hits[1] == f"{CROSSREF}?mailto=papers%40example.org"


def test_unpaywall_is_not_asked_without_an_address_to_write_to(
    faulty: FaultyServer, http: HttpClient
) -> None:
    faulty.put(CROSSREF, crossref(link("https://pub.example/x.pdf")))
    nameless = ResolveOptions(unpaywall_url=faulty.url(""), crossref_url=faulty.url(""))
    found = resolve(DOI, nameless, http, NEVER)
    assert (found.title, found.source) == ("A paper", "crossref")
    assert faulty.hits == [CROSSREF]
    faulty.put(CROSSREF, crossref())
    failure = failure_of(nameless, http)
    assert failure.kind == "unresolvable"
    assert "Unpaywall was not: no contact email is set" in failure.message


def test_when_nobody_knows_a_pdf_the_failure_says_who_was_asked(
    faulty: FaultyServer, options: ResolveOptions, http: HttpClient
) -> None:
    """A 404 is an answer: this source does not know the DOI."""
    faulty.put(UNPAYWALL, {"best_oa_location": None})
    failure = failure_of(options, http)
    assert failure.kind == "unresolvable"
    assert "doi:10.1000/182" in failure.message
    assert "Unpaywall and Crossref were asked" in failure.message


def test_a_source_that_could_not_answer_is_no_reason_to_give_up(
    faulty: FaultyServer, options: ResolveOptions, http: HttpClient
) -> None:
    """Its failure is told, so that it is asked again; unless another source has the PDF."""
    faulty.put(UNPAYWALL, {}, status=503)
    faulty.put(CROSSREF, crossref())
    assert failure_of(options, http).kind == "server_error"
    faulty.put(CROSSREF, crossref(link("https://pub.example/x.pdf")))
    assert resolve(DOI, options, http, NEVER).source == "crossref"


@pytest.mark.parametrize("record", [[], "no", None, {"message": []}])
def test_an_answer_of_another_shape_is_a_bad_answer(
    faulty: FaultyServer, options: ResolveOptions, http: HttpClient, record: Any
) -> None:
    faulty.put(UNPAYWALL, {"oa_locations": "none", "title": 7})
    faulty.put(CROSSREF, record)
    assert failure_of(options, http).kind == "bad_answer"


def test_what_is_no_json_is_a_bad_answer_and_the_address_is_not_repeated(
    faulty: FaultyServer, http: HttpClient
) -> None:
    options = ResolveOptions("papers@example.org", crossref_url=faulty.url("/none"))
    page = faulty.url("/body?text=%3Chtml%3E&rest=")
    failure = failure_of(
        ResolveOptions("papers@example.org", unpaywall_url=page, crossref_url=options.crossref_url),
        http,
    )
    assert failure.kind == "bad_answer"
    assert "papers" not in failure.message


def test_a_silent_source_meets_the_deadline(faulty: FaultyServer, http: HttpClient) -> None:
    """P6-09."""
    silent = ResolveOptions(crossref_url=faulty.url("/stall?"), deadline=0.3)
    assert failure_of(silent, http).kind == "timeout"


def test_a_doi_cannot_climb_out_of_the_path_it_is_asked_under(
    faulty: FaultyServer, options: ResolveOptions, http: HttpClient
) -> None:
    """P6-12."""
    with pytest.raises(StepFailed):
        resolve(identify("10.1000/../../admin?x=1#y"), options, http, NEVER)
    assert faulty.hits[1].startswith("/works/10.1000%2F..%2F..%2Fadmin%3Fx%3D1%23y?")


def test_a_source_that_redirects_to_a_private_address_is_not_followed(
    faulty: FaultyServer, http: HttpClient
) -> None:
    """P6-10: the operator's choice of host is trusted, where it points to is not."""
    elsewhere = ResolveOptions(crossref_url=faulty.url("/to?url=http://127.0.0.1:9/&rest="))
    assert failure_of(elsewhere, http).kind == "refused_address"


def test_an_abort_ends_the_question(options: ResolveOptions, http: HttpClient) -> None:
    signal = AbortSignal()
    signal.abort("stopping")
    with pytest.raises(Aborted):
        resolve(DOI, options, http, signal)
