"""References looked up by their DOIs: under limits, cached, bounded, and no answer is believed unseen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.models import Document, Lookup
from pipeline.steps.resolve.sources import request
from pipeline.tasks import references
from queuemgr.models import Execution, Lease, LimitState, State
from tests import pdf_builder
from tests.integration.pipeline.papers_fixtures import Papers, Site

pytestmark = pytest.mark.django_db(transaction=True)

LIST = (
    "Gates in rivers hold the water back until somebody opens them again.", "References",
    "[1] A. Abel, Gates that leak, J. Water 4, 12 (2009). doi:10.5555/a",
    "[2] B. Bebel, Gates that hold, J. Water 5, 13 (2010). doi:10.5555/b",
    "[3] C. Cadel, Gates that turn, J. Water 6, 14 (2011).",
)  # fmt: skip


def record(title: str, family: str = "Abel", **more: Any) -> bytes:
    said = {
        "title": [title], "author": [{"given": "Ada", "family": family}],
        "container-title": ["Journal of Water"], "issued": {"date-parts": [[2009]]}, **more,
    }  # fmt: skip
    return json.dumps({"message": said}).encode()


def at(doi: str) -> str:
    return f"/works/10.5555%2F{doi}"


@pytest.fixture(autouse=True)
def _services(site: Site, set_settings: Callable[..., None]) -> None:
    set_settings(openalex_url=site.url, metadata_sources="none", lookup_references=50)


def read(papers: Papers, folder: Path, name: str = "a.pdf") -> list[dict[str, Any]]:
    """The stored references of this paper, run to its end."""
    whole = pdf_builder.document([pdf_builder.text_content(*LIST)])
    papers.parse_item(pdf_builder.written(folder, whole, name))
    papers.work()
    assert set(Execution.objects.values_list("state", flat=True)) == {State.DONE}
    document = Document.objects.get(key__endswith=name)
    return [json.loads(line) for line in Path(document.references_file.path).read_text().splitlines()]


def test_the_service_s_fields_are_chosen_and_what_is_printed_otherwise_is_kept(
    papers: Papers, site: Site, tmp_path: Path
) -> None:
    site.pages = {at("a"): record("Gates that leak"), at("b"): record("Gates that hold", "Bebel")}
    first, second, third = read(papers, tmp_path)
    assert (first["title"], first["authors"], first["year"]) == ("Gates that leak", ["Abel, Ada"], 2009)
    assert first["sources"] == dict.fromkeys(("title", "authors", "year", "venue"), "crossref")
    assert {"field": "year", "value": 2010, "source": "printed"} in second["conflicts"]
    assert "sources" not in third, "it prints no DOI"
    assert site.requested == [at("a"), at("b")]


def test_a_record_of_another_work_is_shown_and_not_taken(papers: Papers, site: Site, tmp_path: Path) -> None:
    site.pages = {at("a"): record("On the Migration of Storks", "Zorn", issued={"date-parts": [[1950]]})}
    first = read(papers, tmp_path)[0]
    assert "leak" in first["title"] and first["sources"]["title"] == "printed"
    assert {"field": "title", "value": "On the Migration of Storks", "source": "crossref"} in first[
        "conflicts"
    ]


def test_each_request_holds_the_service_s_limit_and_a_second_paper_asks_nobody(
    papers: Papers, site: Site, tmp_path: Path
) -> None:
    site.pages = {at("a"): record("Gates that leak"), at("b"): record("Gates that hold", "Bebel")}
    held: list[str] = []
    site.on_request = lambda: held.append(Lease.objects.get().limit_keys)
    read(papers, tmp_path)
    assert held == ["resolver:crossref"] * 2
    assert read(papers, tmp_path, "copy.pdf")[0]["sources"]["title"] == "crossref"
    assert len(held) == 2 and Lookup.objects.count() == 2


@pytest.mark.parametrize("answer", [b"{", b'{"message": {"title": 7, "author": "x"}}', b"\xff" * 300])
def test_an_answer_that_is_none_costs_the_paper_nothing(
    answer: bytes, papers: Papers, site: Site, tmp_path: Path
) -> None:
    site.pages = {at("a"): answer, at("b"): answer}
    assert read(papers, tmp_path)[0]["title"].startswith("Gates that leak")
    assert len(site.requested) <= 4, "each service is asked once about each"


def test_a_huge_answer_and_a_slow_one_are_given_up(
    papers: Papers, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "MAX_BYTES", 200)
    site.pages = {at("a"): record("Gates that leak", publisher="x" * 300)}
    assert "sources" not in read(papers, tmp_path)[0]


def test_a_service_that_fails_again_and_again_is_left_out(
    papers: Papers, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "MOST_FAILURES", 1)
    site.pages = {at("a"): b"{", "/works/doi:10.5555%2Fa": b"{"}
    read(papers, tmp_path)
    assert at("b") not in site.requested, "Crossref failed once"
    assert not LimitState.objects.filter(open_until__isnull=False).exists()


def test_without_the_setting_only_the_paper_that_asks_is_looked_up(
    papers: Papers, site: Site, tmp_path: Path, set_settings: Callable[..., None]
) -> None:
    set_settings(lookup_references=0)
    site.pages = {at("a"): record("Gates that leak")}
    read(papers, tmp_path)
    assert site.requested == []
    whole = pdf_builder.document([pdf_builder.text_content(*LIST)])
    asked = json.dumps(
        {"path": str(pdf_builder.written(tmp_path, whole, "b.pdf")), "lookup_references": True}
    )
    papers.parse_item(asked)
    papers.work()
    assert at("a") in site.requested


def test_of_many_references_no_more_than_the_setting_says_are_asked_about(
    papers: Papers, site: Site, tmp_path: Path, set_settings: Callable[..., None]
) -> None:
    set_settings(lookup_references=1)
    site.pages = {at("a"): record("Gates that leak"), at("b"): record("Gates that hold", "Bebel")}
    read(papers, tmp_path)
    assert site.requested == [at("a")]
