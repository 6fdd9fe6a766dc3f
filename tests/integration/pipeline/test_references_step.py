"""References looked up by their DOIs: under limits, cached, bounded, and no answer is believed unseen."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from pipeline.bibliography import written
from pipeline.models import Document, Lookup
from pipeline.steps.identify import Identifier
from pipeline.steps.resolve.sources import request
from pipeline.steps.resolve.sources.answer import Answer, Outcome
from pipeline.steps.resolve.sources.lookup_log import Inquiry
from pipeline.steps.resolve.sources.source import Source
from pipeline.tasks import references
from queuemgr import StepFailed
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import Attempt, Execution, Lease, LimitState, State
from queuemgr.scheduling import breakers
from tests import pdf_builder
from tests.integration.cli.commands import queue
from tests.integration.conftest import let_time_pass
from tests.integration.pipeline.papers_fixtures import Papers, Site
from tests.integration.pipeline.steps import faulty_server
from tests.integration.pipeline.steps.faulty_server import FaultyServer
from tests.integration.pipeline.test_metadata_step import SELECT

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


def said(begin: str) -> int:
    """Ends of leases that say so, and burned no attempt."""
    return Attempt.objects.filter(
        step="references", outcome="snoozed", error_message__startswith=begin
    ).count()


def documents_page(document: Document) -> str:
    client = Client()
    client.force_login(User.objects.create_superuser("sam"))
    return client.get(f"/admin/pipeline/document/{document.pk}/change/").content.decode()


def at(doi: str) -> str:
    return f"/works/10.5555%2F{doi}"


@pytest.fixture(autouse=True)
def _services(site: Site, set_settings: Callable[..., None], static_root: None) -> None:
    set_settings(openalex_url=site.url, metadata_sources="none", lookup_references=50)


def read(
    papers: Papers, folder: Path, name: str = "a.pdf", lines: Sequence[str] = LIST
) -> list[dict[str, Any]]:
    """The stored references of this paper, run to its end."""
    whole = pdf_builder.document([pdf_builder.text_content(*lines)])
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
    document, differs = Document.objects.get(), {"value": 2010, "source": "printed"}
    report = json.loads(Path(document.report_json.path).read_text())["references"]["list"]
    assert report[1]["fields"]["year"] == {"value": 2009, "source": "crossref", "conflicts": [differs]}
    assert "fields" not in report[2]
    assert "2009 (crossref); others state: printed: 2010" in Path(document.report_markdown.path).read_text()
    page = "crossref: title, authors, year, venue; others state: year"
    assert page in Path(document.report_html.path).read_text()
    line = json.loads("".join(written(Document.objects.all(), "jsonl", references=True)))
    assert line["metadata"]["references"] == [first, second, third]
    assert "DP  - Crossref" in "".join(written(Document.objects.all(), "ris", references=True))
    assert ">printed: 2010</td>" in documents_page(document)
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


ELSEWHERE = ("http://169.254.169.254/x", "http://[::1]:1/x", "http://localhost:1/x", "file:///etc/passwd")
ANSWERS = (
    "/body?text={", "/body?text=[]", "/body?text=<html><title>Sign in</title>&type=text/html",
    f"/body?text={'x' * 300}", "/packed?as=gzip", "/stall", "/drip", "/drip-head", "/stall-body", "/reset",
    "/hang-up", "/status?code=503&retry-after=2", "/loop",
    *(f"/status?code={code}" for code in (400, 401, 403, 500, 502, 504)),
    *(f"/to?url={where}" for where in ELSEWHERE),
)  # fmt: skip
"""What the service answers about one DOI each: what is none, too much, too slow, a refusal, another place."""


def test_whatever_a_service_answers_costs_the_paper_nothing_and_the_next_one_is_asked(
    papers: Papers, site: Site, tmp_path: Path, set_settings: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Each is given up at the bound, and leads nowhere; failures are announced and throttle nobody."""
    monkeypatch.setattr(request, "MAX_BYTES", 290)
    monkeypatch.setattr(references, "MOST_FAILURES", len(ANSWERS) + 1)
    names = [f"a{number}" for number in range(len(ANSWERS))]
    for name, answer in zip(names, ANSWERS, strict=True):
        monkeypatch.setitem(faulty_server.FAULTS, at(name), faulty_server.as_asked(answer))
        site.pages[f"/works/doi:10.5555%2F{name}{SELECT}"] = json.dumps({"title": f"Gates {name}"}).encode()
    printed = [
        f"[{number}] A. Abel, Gates {name}, J. Water 4, 12 (2009). doi:10.5555/{name}"
        for number, name in enumerate(names, start=1)
    ]
    with FaultyServer() as faulty:
        set_settings(crossref_url=faulty.url(""), http_timeout=0.2)
        found = read(papers, tmp_path, lines=(*LIST[:2], *printed))
    assert [each["sources"]["title"] for each in found] == ["openalex"] * len(ANSWERS)
    assert said("Crossref did not answer: ") == len(ANSWERS)
    assert len(faulty.hits) == len(ANSWERS) + 1, "once each, and where one redirects to itself"
    assert not LimitState.objects.filter(open_until__isnull=False).exists()


@pytest.mark.parametrize(("seconds", "times"), [(90, 3), (7_200, 1)])
def test_a_service_that_refuses_is_asked_again_under_its_limit_after_the_time_it_asks_for_and_then_left_out(
    seconds: int, times: int, papers: Papers, site: Site, tmp_path: Path, set_settings: Callable[..., None]
) -> None:
    """The wait is announced and burns no attempt; one that is too long is not waited for."""
    whole = pdf_builder.document([pdf_builder.text_content(*LIST)])
    with FaultyServer() as busy:
        set_settings(crossref_url=busy.url(f"/status?code=429&retry-after={seconds}&rest="))
        papers.parse_item(pdf_builder.written(tmp_path, whole, "a.pdf"))
        for asked in range(1, times + 1):
            papers.work()
            (throttled,) = LimitState.objects.filter(open_until__gt=database_now() + timedelta(seconds=60))
            announced = f"429, Retry-After {seconds} s"
            assert (throttled.name, throttled.open_reason) == ("resolver:crossref", announced)
            assert len(busy.hits) == asked
            if asked < times:
                assert announced in queue("why", Execution.objects.get().key).out
                breakers.reset(["resolver:crossref"])
                let_time_pass(Execution.objects.all())
                dispatch()
        assert said(f"Crossref asks to wait {seconds} s") == times
    assert Execution.objects.get().state == State.DONE
    assert not Attempt.objects.filter(outcome="failed").exists()
    assert len(site.requested) == 2, "OpenAlex, about both"


def test_where_one_service_moved_a_record_to_no_other_is_asked(
    papers: Papers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, str]] = []

    def query(source: Source, doi: Identifier, *more: object) -> tuple[Inquiry, Answer | None]:
        moved_to = str(more[-1])
        asked.append((source.name, doi.key, moved_to))
        if source.name == "openalex":
            answer = Answer(Outcome.NOT_KNOWN)
            return Inquiry.answered(source, answer), answer
        if not moved_to:
            return Inquiry.moved(source, "/elsewhere"), None
        return Inquiry.failed(source, StepFailed("rate_limited", "429", retry_after=7200)), None

    monkeypatch.setattr(references, "query_source", query)
    read(papers, tmp_path)
    first, second = (f"doi:10.5555/{name}" for name in "ab")
    assert asked == [
        ("crossref", first, ""), ("crossref", first, "/elsewhere"), ("openalex", first, ""),
        ("openalex", second, ""),
    ]  # fmt: skip


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
