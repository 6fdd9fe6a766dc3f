"""The step that asks about what a paper prints: its limits, its failures, and whose record it believes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.models import Document, Lookup
from queuemgr.models import Execution, Lease, LimitState, State
from tests import pdf_builder
from tests.integration.pipeline.papers_fixtures import STEPS, Papers, Site

pytestmark = pytest.mark.django_db(transaction=True)

TITLE = "Teaching Gates to Open Slowly"
PRINTED = (
    TITLE, "Ada Lovewater", "DOI: 10.5555/gates.13", "Abstract",
    "Gates that open slowly waste less water at night.",
    "We measured forty of them over nine years, and all of them agree on that.",
)  # fmt: skip
CROSSREF, OPENALEX = "/works/10.5555%2Fgates.13", "/works/doi:10.5555%2Fgates.13"
SELECT = (
    "?select=id%2Cdoi%2Ctitle%2Cpublication_year%2Cauthorships%2Copen_access%2Cbest_oa_location%2Clocations"
    "%2Cbiblio%2Cprimary_location"
)
RECORD: dict[str, Any] = {
    "title": [TITLE], "author": [{"given": "Ada", "family": "Lovewater"}, {"given": "Bo", "family": "Bebel"}],
    "issued": {"date-parts": [[2018, 8]]}, "container-title": ["Journal of Open Gates"], "volume": "1",
    "issue": "3", "page": "13", "publisher": "Open Gates", "DOI": "10.5555/gates.13",
    "abstract": "<jats:p>Gates that <jats:i>open</jats:i> slowly.</jats:p>",
}  # fmt: skip


@pytest.fixture
def services(site: Site, set_settings: Callable[..., None]) -> Site:
    set_settings(openalex_url=site.url)
    return site


def paper(folder: Path, *lines: str, name: str = "made.pdf") -> Path:
    whole = pdf_builder.document([pdf_builder.text_content(*(lines or PRINTED))])
    return pdf_builder.written(folder, whole, name)


def say(site: Site, path: str, record: Any) -> None:
    site.pages[path] = json.dumps(record).encode()


def looked_up(papers: Papers, path: Path) -> list[str]:
    """Run the paper to its end; returns the limits under which services were asked."""
    papers.parse_item(path)
    held: list[str] = []
    grants = papers.worker.begin_all()
    while grants:
        if grants[0].step == "metadata":
            held.append(Lease.objects.get().limit_keys)
        grants = papers.worker.end(grants[0], papers.run(grants[0]))
    assert Execution.objects.get(key=Document.objects.get(local_path=str(path)).key).state == State.DONE
    return held


def sources(document: Document) -> list[tuple[str, str]]:
    return [(lookup["source"], lookup["outcome"]) for lookup in document.lookups if lookup.get("about")]


def test_the_doi_a_local_paper_prints_gives_it_a_record_under_the_services_limit(
    papers: Papers, services: Site, tmp_path: Path
) -> None:
    say(services, CROSSREF, {"message": RECORD})
    assert looked_up(papers, paper(tmp_path)) == ["resolver:crossref"]
    document = Document.objects.get()
    assert (document.title, document.year, document.venue) == (TITLE, 2018, "Journal of Open Gates")
    assert document.authors == ["Ada Lovewater", "Bo Bebel"] and document.doi == "10.5555/gates.13"
    assert document.abstract == "Gates that open slowly."
    assert sources(document) == [("crossref", "no address")]
    report = json.loads(Path(document.report_json.path).read_text())["metadata"]
    assert report["authors"]["source"] == "crossref"
    assert report["authors"]["conflicts"][0] == {
        "value": ["Ada Lovewater"],
        "source": "printed",
        "confidence": 0.6,
    }
    assert [attempt for attempt in papers.outcomes() if attempt[0] not in STEPS] == [("metadata", "done")]


def test_a_second_copy_of_a_paper_asks_nobody(papers: Papers, services: Site, tmp_path: Path) -> None:
    say(services, CROSSREF, {"message": RECORD})
    looked_up(papers, paper(tmp_path))
    looked_up(papers, paper(tmp_path, *PRINTED, "Copied.", name="copy.pdf"))
    assert services.requested == [CROSSREF] and Lookup.objects.get().name == "doi:10.5555/gates.13"
    assert {document.year for document in Document.objects.all()} == {2018}


def test_a_service_that_does_not_know_it_or_fails_is_followed_by_the_next(
    papers: Papers, services: Site, tmp_path: Path
) -> None:
    say(services, OPENALEX + SELECT, {"title": TITLE, "publication_year": 2019, "biblio": {"volume": "7"}})
    assert looked_up(papers, paper(tmp_path)) == ["resolver:crossref", "resolver:openalex"]
    assert services.requested == [CROSSREF, OPENALEX + SELECT]
    document = Document.objects.get()
    assert document.year == 2019
    assert sources(document) == [("crossref", "not known"), ("openalex", "no address")]


def test_services_that_are_away_hold_no_paper_up_and_open_no_breaker(
    papers: Papers, set_settings: Callable[..., None], tmp_path: Path
) -> None:
    set_settings(
        crossref_url="http://127.0.0.1:9", openalex_url="http://127.0.0.1:9", allow_private_addresses=True
    )
    assert looked_up(papers, paper(tmp_path)) == ["resolver:crossref", "resolver:openalex"]
    document = Document.objects.get()
    assert sources(document) == [("crossref", "failed"), ("openalex", "failed")]
    assert (document.title, document.doi) == (TITLE, "10.5555/gates.13")
    assert not LimitState.objects.exclude(open_reason="").exists()


def test_the_record_of_another_paper_is_shown_and_not_believed(
    papers: Papers, services: Site, tmp_path: Path
) -> None:
    say(services, CROSSREF, {"message": {**RECORD, "title": ["Beams That Were Built in a Hurry"]}})
    looked_up(papers, paper(tmp_path))
    document = Document.objects.get()
    assert (document.title, document.authors) == (TITLE, ["Ada Lovewater"])
    assert {"Beams That Were Built in a Hurry"} == {
        each["value"]
        for each in document.metadata or ()
        if each["source"] == "crossref" and each["field"] == "title"
    }


@pytest.mark.parametrize("names", ["none", "arxiv"])
def test_nobody_is_asked_whom_the_setting_does_not_name(
    names: str, papers: Papers, services: Site, set_settings: Callable[..., None], tmp_path: Path
) -> None:
    set_settings(metadata_sources=names)
    assert looked_up(papers, paper(tmp_path)) == [] and services.requested == []


def test_a_paper_that_was_resolved_is_not_looked_up_again(papers: Papers, services: Site) -> None:
    services.pages["/a.pdf"] = pdf_builder.document([pdf_builder.text_content(*PRINTED)])
    say(services, CROSSREF, {"message": {**RECORD, "link": [
        {"URL": f"{services.url}/a.pdf", "content-type": "application/pdf"},
    ]}})  # fmt: skip
    papers.parse_item("10.5555/gates.13")
    papers.work()
    assert "metadata" not in [step for step, _ in papers.outcomes()]
    document = Document.objects.get()
    assert (document.title, document.venue) == (TITLE, "Journal of Open Gates")
