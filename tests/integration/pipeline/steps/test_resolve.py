"""Where a PDF is: by its id, on disk, or from services that answer, refuse or do not respond."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.steps.http.client import HttpClient
from pipeline.steps.identify import Identifier, identify
from pipeline.steps.resolve.resolve import (
    SOURCES,
    Resolved,
    conclude,
    next_source,
    unavailable_sources,
    without_lookup,
)
from pipeline.steps.resolve.resolve_state import ResolveState
from pipeline.steps.resolve.sources.answer import Outcome, Rank
from pipeline.steps.resolve.sources.query import query_source
from pipeline.steps.resolve.sources.source import ResolveOptions
from queuemgr.base.errors import Aborted, StepFailed
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from tests.integration.pipeline.steps.faulty_server import FaultyServer

pytestmark = pytest.mark.usefixtures("loop_stays_quiet")

DOI = identify("10.1000/182")
UNPAYWALL, CROSSREF = "/v2/10.1000%2F182", "/works/10.1000%2F182"
OPENALEX, SCHOLAR = "/works/doi:10.1000%2F182", "/graph/v1/paper/DOI:10.1000%2F182"
Ask = Callable[..., tuple[ResolveState, Resolved]]


@pytest.fixture
def options(faulty: FaultyServer) -> ResolveOptions:
    names = ("arxiv", "unpaywall", "crossref", "openalex", "semanticscholar")
    urls = {f"{name}_url": faulty.url("/") for name in names}
    return ResolveOptions(contact_email="papers@example.org", deadline=5.0, **urls)


@pytest.fixture
def ask(options: ResolveOptions, http: HttpClient) -> Ask:
    """Ask the sources one after another, as the step does over several leases."""

    def ask_all(identifier: Identifier = DOI, **changed: Any) -> tuple[ResolveState, Resolved]:
        with_these = replace(options, **changed)
        so_far = ResolveState(unavailable_sources(identifier, with_these))
        while due := next_source(identifier, with_these, so_far):
            path = next((i.path for i in reversed(so_far.inquiries_at(due))), "")
            so_far = so_far.with_inquiry(*query_source(due, identifier, with_these, http, NEVER, path))
        return so_far, conclude(identifier, with_these, so_far)

    return ask_all


def urls_of(found: Resolved) -> list[str]:
    return [address.url for address in found.addresses]


def crossref(*links: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"message": {"title": ["A  paper"], "link": list(links), **more}}


def link(url: str, kind: str = "application/pdf", use: str = "text-mining") -> dict[str, str]:
    return {"URL": url, "content-type": kind, "intended-application": use}


# Identifiers that need no lookup


def test_a_url_is_its_own_address_and_a_page_unless_it_names_a_pdf() -> None:
    pdf, page = (
        without_lookup(identify("https://a.org/x.PDF?v=1")),
        without_lookup(identify("https://a.org/x")),
    )
    assert pdf and page
    assert (pdf.addresses[0].landing, page.addresses[0].landing) == (False, True)


def test_a_file_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    with pytest.raises(StepFailed, match=str(path)) as failure:
        without_lookup(identify(str(path)))
    assert failure.value.kind == "not_found"
    path.write_bytes(b"%PDF")
    assert without_lookup(identify(str(path))) == Resolved(path=str(path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.touch(mode=0)
    with pytest.raises(StepFailed, match="may not read the file"):
        without_lookup(identify(str(path)))


# A DOI


def test_the_best_open_copy_is_tried_first_then_the_others_then_their_pages(
    faulty: FaultyServer, ask: Ask
) -> None:
    best = {"url_for_pdf": "https://r.org/a.pdf", "url_for_landing_page": "https://r.org/a"}
    other = {"url_for_pdf": "http://r.org/b.pdf", "license": "cc0"}
    record = {
        "title": "On\n <i>Sluices</i> &amp; gates\x00",
        "year": 2020,
        "oa_status": "green",
        "z_authors": [{"given": "Ann", "family": "B\x00lack"}, {"raw_author_name": "C. White"}],
        "best_oa_location": {**best, "license": "cc-by"},
        "oa_locations": [best, None, other, {"url_for_pdf": "https://r.org/b.pdf"}],
    }
    faulty.put(UNPAYWALL, record)
    so_far, found = ask()
    assert urls_of(found) == ["https://r.org/a.pdf", "http://r.org/b.pdf", "https://r.org/a"]
    assert [address.landing for address in found.addresses] == [False, False, True]
    paper = found.paper
    assert (paper.title, paper.authors) == ("On Sluices & gates", ("Ann Black", "C. White"))
    assert (paper.year, paper.licence, paper.open_access) == (2020, "cc-by", "green")
    assert paper.doi == "10.1000/182"
    assert faulty.hits == [f"{UNPAYWALL}?email=papers%40example.org"], "enough is known"
    assert [i.outcome for i in so_far.inquiries] == [Outcome.FOUND]
    assert "example.org" not in str(so_far.inquiries)


def test_sources_are_asked_in_order_and_their_addresses_ordered_by_who_may_read_them(
    faulty: FaultyServer, ask: Ask
) -> None:
    faulty.put(UNPAYWALL, {"title": "By Unpaywall", "best_oa_location": None})
    links = [link("https://p.org/checker.pdf", use="similarity-checking")]
    links += [link("https://p.org/x.xml", kind="text/xml"), link("https://p.org/x.pdf")]
    page = {"primary": {"URL": "https://p.org/page"}}
    faulty.put(CROSSREF, crossref(*links, resource=page))
    places = [
        {"is_oa": False, "pdf_url": "https://closed.org/x.pdf"},
        {"is_oa": True, "pdf_url": "https://content.openalex.org/works/W1.pdf"},
        {"is_oa": True, "landing_page_url": "https://r.org/page"},
    ]
    faulty.put(OPENALEX, {"title": "T", "publication_year": 1999, "locations": places})
    ids = {"ArXiv": "2101.00001", "DOI": "10.1000/182"}
    faulty.put(SCHOLAR, {"externalIds": ids, "openAccessPdf": {"url": "", "status": "GREEN"}})
    _, found = ask()
    assert [hit.partition("?")[0] for hit in faulty.hits] == [
        UNPAYWALL, CROSSREF, OPENALEX, SCHOLAR,
    ]  # fmt: skip
    assert urls_of(found) == [
        faulty.url("/pdf/2101.00001"), "https://p.org/x.pdf", "https://closed.org/x.pdf",
        "https://r.org/page", "https://p.org/page", "https://p.org/checker.pdf",
    ]  # fmt: skip
    assert [a.rank for a in found.addresses] == sorted(a.rank for a in found.addresses)
    assert (found.paper.title, found.paper.year) == ("A paper", 1999), "Crossref is believed first"
    assert (found.paper.open_access, found.paper.arxiv_id) == ("green", "2101.00001")


def test_keys_and_contact_address_are_sent_as_each_service_expects(faulty: FaultyServer, ask: Ask) -> None:
    with pytest.raises(StepFailed) as failure:
        ask(openalex_api_key="oa-secret", semanticscholar_api_key="s2-secret")
    by_path = {hit.partition("?")[0]: (hit, seen) for hit, seen in zip(faulty.hits, faulty.seen, strict=True)}
    assert "api_key=oa-secret" in by_path[OPENALEX][0]
    assert by_path[SCHOLAR][1]["x-api-key"] == "s2-secret"
    assert "mailto=papers%40example.org" in by_path[CROSSREF][0]
    assert all("x-api-key" not in seen for hit, seen in by_path.values() if "graph" not in hit)
    assert "secret" not in failure.value.message + repr(ResolveOptions(openalex_api_key="secret1"))


def test_when_no_source_knows_a_pdf_the_failure_lists_each_source_and_its_answer(
    faulty: FaultyServer, ask: Ask
) -> None:
    """A 404 is an answer: this source does not know the DOI."""
    faulty.put(UNPAYWALL, {"best_oa_location": None})
    with pytest.raises(StepFailed) as failure:
        ask(contact_email="")
    assert failure.value.kind == "unresolvable"
    for text in (
        "doi:10.1000/182", "Unpaywall: not asked: no contact email is set",
        "Crossref: does not know the paper", "OpenAlex: does not", "Semantic Scholar: does not",
    ):  # fmt: skip
        assert text in failure.value.message
    assert UNPAYWALL not in " ".join(faulty.hits)


@pytest.mark.parametrize("source", ["unpaywall", "crossref", "openalex", "semanticscholar"])
def test_a_source_that_cannot_answer_is_asked_again_unless_another_has_the_pdf(
    source: str, faulty: FaultyServer, ask: Ask
) -> None:
    paths = dict(zip(("unpaywall", "crossref", "openalex", "semanticscholar"),
                     (UNPAYWALL, CROSSREF, OPENALEX, SCHOLAR), strict=True))  # fmt: skip
    faulty.put(paths.pop(source), {}, status=503)
    with pytest.raises(StepFailed) as failure:
        ask()
    assert failure.value.kind == "server_error"
    assert f"{SOURCES[source].title}: could not answer" in failure.value.message
    licence = {"license": [{"URL": "https://creativecommons.org/licenses/by/4.0/"}]}
    answers = {
        "unpaywall": {"best_oa_location": {"url_for_pdf": "https://r.org/x.pdf"}},
        "crossref": crossref(link("https://r.org/x.pdf"), **licence),
    }
    helper = "crossref" if source == "unpaywall" else "unpaywall"
    faulty.put(paths[helper], answers[helper])
    assert urls_of(ask()[1]) == ["https://r.org/x.pdf"]


def test_a_publishers_page_alone_does_not_stand_in_for_a_source_that_was_down(
    faulty: FaultyServer, ask: Ask
) -> None:
    """But Semantic Scholar's shared pool may always be busy, and is not waited for."""
    faulty.put(CROSSREF, crossref(resource={"primary": {"URL": "https://p.org/page"}}))
    faulty.put(SCHOLAR, {}, status=429)
    assert [address.rank for address in ask()[1].addresses] == [Rank.PAGE]
    with pytest.raises(StepFailed) as failure:
        ask(semanticscholar_api_key="s2-secret")
    assert failure.value.kind == "rate_limited"


@pytest.mark.parametrize(
    ("asks", "wait"), [("7", 7.0), ("Sat, 28 Nov 2026 10:01:30 GMT", 90.0)], ids=["seconds", "date"]
)
def test_a_retry_after_of_a_source_is_obeyed_in_both_forms(
    asks: str, wait: float, faulty: FaultyServer, options: ResolveOptions, http: HttpClient
) -> None:
    answer = f"/status?code=429&date=Sat, 28 Nov 2026 10:00:00 GMT&retry-after={asks}&rest="
    busy = replace(options, crossref_url=faulty.url(answer.replace(" ", "%20")))
    inquiry, _ = query_source(SOURCES["crossref"], DOI, busy, http, NEVER)
    assert (inquiry.kind, inquiry.retry_after) == ("rate_limited", wait)


@pytest.mark.parametrize("record", [[], "no", None, 7])
@pytest.mark.parametrize("name", ["unpaywall", "crossref", "openalex", "semanticscholar"])
def test_an_answer_of_another_shape_is_a_bad_answer(
    name: str, record: Any, faulty: FaultyServer, options: ResolveOptions, http: HttpClient
) -> None:
    for path in (UNPAYWALL, CROSSREF, OPENALEX, SCHOLAR):
        faulty.put(path, record)
    assert query_source(SOURCES[name], DOI, options, http, NEVER)[0].kind == "bad_answer"


@pytest.mark.parametrize("name", ["unpaywall", "crossref", "openalex", "semanticscholar"])
def test_fields_of_other_types_are_taken_for_missing(
    name: str, faulty: FaultyServer, options: ResolveOptions, http: HttpClient
) -> None:
    odd = {
        "title": 7, "year": "soon", "oa_locations": "none", "best_oa_location": [], "link": {},
        "z_authors": 3, "author": [1, None], "locations": [None, "x"], "authorships": {},
        "open_access": 1, "openAccessPdf": "x", "externalIds": [], "authors": [{"name": []}],
        "license": [7], "resource": {"primary": []}, "issued": {"date-parts": [[None]]},
    }  # fmt: skip
    for path in (UNPAYWALL, CROSSREF, OPENALEX, SCHOLAR):
        faulty.put(path, {**odd, "message": odd})
    inquiry, answer = query_source(SOURCES[name], DOI, options, http, NEVER)
    assert (inquiry.outcome, answer and answer.paper.title) == (Outcome.NO_ADDRESS, "")


@pytest.mark.parametrize("text", ["%3Chtml%3E", "{%22title%22:", ""])
def test_what_is_no_json_is_a_bad_answer_and_the_address_is_not_repeated(
    text: str, faulty: FaultyServer, options: ResolveOptions, http: HttpClient
) -> None:
    page = replace(options, unpaywall_url=faulty.url(f"/body?text={text}&rest="))
    inquiry, _ = query_source(SOURCES["unpaywall"], DOI, page, http, NEVER)
    assert inquiry.kind == "bad_answer"
    assert "papers" not in inquiry.detail


def test_a_silent_source_ends_at_the_deadline(
    faulty: FaultyServer, options: ResolveOptions, http: HttpClient
) -> None:
    silent = replace(options, crossref_url=faulty.url("/stall?"), deadline=0.3)
    assert query_source(SOURCES["crossref"], DOI, silent, http, NEVER)[0].kind == "timeout"


def test_a_doi_cannot_escape_the_path_of_the_lookup(faulty: FaultyServer, ask: Ask) -> None:
    with pytest.raises(StepFailed):
        ask(identify("10.1000/../../admin?x=1#y"))
    assert faulty.hits[1].startswith("/works/10.1000%2F..%2F..%2Fadmin%3Fx%3D1%23y?")


def test_a_redirect_is_requested_by_another_lease_and_never_leaves_the_service(
    faulty: FaultyServer, options: ResolveOptions, http: HttpClient
) -> None:
    """The configured host is trusted, but not what it redirects to."""
    for target, outcome in ((faulty.url("/works/10.1000%2F183?mailto=x"), Outcome.MOVED),
                            ("http://127.0.0.1:9/", Outcome.FAILED)):  # fmt: skip
        moved = replace(options, crossref_url=faulty.url(f"/to?url={target}&rest="))
        before = len(faulty.hits)
        inquiry, _ = query_source(SOURCES["crossref"], DOI, moved, http, NEVER)
        assert (inquiry.outcome, len(faulty.hits) - before) == (outcome, 1)
    faulty.put("/works/10.1000%2F183", crossref(link("https://p.org/x.pdf")))
    inquiry, _ = query_source(SOURCES["crossref"], DOI, options, http, NEVER, "/works/10.1000%2F183")
    assert inquiry.outcome == Outcome.FOUND


def test_an_abort_ends_a_lookup(options: ResolveOptions, http: HttpClient) -> None:
    signal = AbortSignal()
    signal.abort("stopping")
    with pytest.raises(Aborted):
        query_source(SOURCES["crossref"], DOI, options, http, signal)
