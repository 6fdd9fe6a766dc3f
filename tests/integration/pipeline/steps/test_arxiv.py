"""arXiv: reading its feed, telling an empty feed from an outage, and obeying its 403."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from pipeline.steps.http.client import HttpClient
from pipeline.steps.identify import identify
from pipeline.steps.resolve.resolve import conclude, next_source, seconds_before
from pipeline.steps.resolve.resolve_state import ResolveState
from pipeline.steps.resolve.sources.answer import Answer, Outcome
from pipeline.steps.resolve.sources.arxiv import ARXIV, REFUSED_SECONDS
from pipeline.steps.resolve.sources.lookup_log import Inquiry
from pipeline.steps.resolve.sources.query import query_source
from pipeline.steps.resolve.sources.source import ResolveOptions
from queuemgr.flows.abort_signal import NEVER
from tests.integration.pipeline.steps.faulty_server import FaultyServer

pytestmark = pytest.mark.usefixtures("loop_stays_quiet")

FEED = '<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom">{}</feed>'
ENTRY = """<entry><id>http://arxiv.org/abs/{id}</id><published>1999-01-04T10:00:00Z</published>
<title>On
  sluices</title><author><name>A. Gate</name></author><author><name>B. Lock</name></author>
<arxiv:doi xmlns:arxiv="http://arxiv.org/schemas/atom">10.1000/ABC</arxiv:doi></entry>"""


def query(text: str, body: str, faulty: FaultyServer, http: HttpClient) -> tuple[Inquiry, Answer]:
    options = ResolveOptions(arxiv_url=faulty.url(f"/body?text={quote(body)}&rest="), deadline=5)
    inquiry, answer = query_source(ARXIV, identify(text), options, http, NEVER)
    return inquiry, answer or Answer(inquiry.outcome)


@pytest.mark.parametrize(
    ("text", "arxiv_id", "url"),
    [
        ("2101.00001", "2101.00001v3", "http://m.org/pdf/2101.00001v3"),
        ("arXiv:2101.00001v2", "2101.00001v2", "http://m.org/pdf/2101.00001v2"),
        ("hep-th/9901001", "hep-th/9901001v1", "http://m.org/pdf/hep-th/9901001v1"),
        ("https://arxiv.org/abs/math.GT/0309136v3", "math/0309136v3", "http://m.org/pdf/math/0309136v3"),
    ],
)  # fmt: skip
def test_a_paper_is_returned_with_the_version_found(
    text: str, arxiv_id: str, url: str, faulty: FaultyServer, http: HttpClient
) -> None:
    inquiry, answer = query(text, FEED.format(ENTRY.format(id=arxiv_id)), faulty, http)
    found = conclude(
        identify(text),
        ResolveOptions(arxiv_url="http://m.org/"),
        ResolveState().with_inquiry(inquiry, answer),
    )
    assert [address.url for address in found.addresses] == [url]
    paper = found.paper
    assert (paper.title, paper.authors, paper.year) == ("On sluices", ("A. Gate", "B. Lock"), 1999)
    assert (paper.doi, paper.arxiv_id) == ("10.1000/abc", arxiv_id)


def test_an_empty_feed_is_no_answer_so_it_is_asked_once_more_and_the_pdf_fetched_by_rule(
    faulty: FaultyServer, http: HttpClient
) -> None:
    paper, options = identify("2101.00001v2"), ResolveOptions()
    inquiry, answer = query("2101.00001v2", FEED.format(""), faulty, http)
    assert inquiry.outcome == Outcome.UNSURE
    so_far = ResolveState().with_inquiry(inquiry, answer)
    assert next_source(paper, options, so_far) is ARXIV
    assert seconds_before(ARXIV, so_far) > 0
    so_far = so_far.with_inquiry(inquiry, answer)
    assert next_source(paper, options, so_far) is None
    found = conclude(paper, options, so_far)
    assert found.addresses[0].url == "https://export.arxiv.org/pdf/2101.00001v2"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("<!DOCTYPE html><html><title>arXiv</title></html>", "bad_answer"),
        (FEED.format("<entry>"), "bad_answer"),
        ("<html/>", "bad_answer"),
        ("", "bad_answer"),
        ('<!ENTITY a "b">' + FEED.format(""), "bad_answer"),
        (FEED.format(ENTRY.format(id="2101.00002v1")), "bad_answer"),
        ("Rate exceeded.", "rate_limited"),
    ],
)
def test_what_is_no_feed_about_this_paper_is_no_answer(
    body: str, kind: str, faulty: FaultyServer, http: HttpClient
) -> None:
    assert query("2101.00001", body, faulty, http)[0].kind == kind


def test_an_error_in_a_feed_is_an_answer(faulty: FaultyServer, http: HttpClient) -> None:
    error = "<entry><id>http://arxiv.org/api/errors#incorrect_id</id><title>Error</title></entry>"
    assert query("2101.00001", FEED.format(error), faulty, http)[0].outcome == Outcome.NOT_KNOWN


@pytest.mark.parametrize(("code", "wait"), [(403, REFUSED_SECONDS), (429, None), (503, None)])
def test_a_403_of_arxiv_is_a_rate_limit_of_hours(
    code: int, wait: float | None, faulty: FaultyServer, http: HttpClient
) -> None:
    options = ResolveOptions(arxiv_url=faulty.url(f"/status?code={code}&rest="))
    inquiry, _ = query_source(ARXIV, identify("2101.00001"), options, http, NEVER)
    assert inquiry.kind == ("server_error" if code == 503 else "rate_limited")
    assert inquiry.retry_after == wait


def test_without_arxiv_metadata_no_source_is_queried() -> None:
    options = ResolveOptions(arxiv_metadata=False)
    assert next_source(identify("2101.00001"), options, ResolveState()) is None
    found = conclude(identify("2101.00001"), options, ResolveState())
    assert found.addresses[0].url == "https://export.arxiv.org/pdf/2101.00001"
