"""The resolve step over several leases: one limit each, inquiries logged, answers cached, breakers kept."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from pipeline.models import Document, Lookup
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import Attempt, Execution, Lease, LimitState, State
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import breakers
from tests.integration.conftest import let_time_pass
from tests.integration.pipeline.papers_fixtures import Papers, Site
from tests.integration.pipeline.steps.faulty_server import FaultyServer

pytestmark = pytest.mark.django_db(transaction=True)
DOI = "10.1000/182"
UNPAYWALL = "/v2/10.1000%2F182?email=p%40example.org"
CROSSREF = "/works/10.1000%2F182?mailto=p%40example.org"


@pytest.fixture
def sources(site: Site, set_settings: Any) -> Site:
    set_settings(contact_email="p@example.org", unpaywall_url=site.url, resolvers="unpaywall,crossref")
    return site


def say(site: Site, path: str, record: Any) -> None:
    site.pages[path] = json.dumps(record).encode()


def resolve(papers: Papers) -> list[str]:
    """Run leases until the paper may be fetched or must wait; returns the limits of each."""
    held: list[str] = []
    grants = papers.worker.begin_all()
    while grants and grants[0].step == "resolve":
        held.append(Lease.objects.get().limit_keys)
        grants = papers.worker.end(grants[0], papers.run(grants[0]))
    return held


def test_each_lease_asks_one_source_under_its_limit_only(papers: Papers, sources: Site) -> None:
    say(sources, UNPAYWALL, {"title": "T", "oa_status": "closed", "best_oa_location": None})
    say(sources, CROSSREF, {"message": {"resource": {"primary": {"URL": "https://p.org/x"}}}})
    papers.parse_item(DOI)
    assert resolve(papers) == ["", "resolver:unpaywall", "resolver:crossref"]
    assert sources.requested == [UNPAYWALL, CROSSREF]
    document = Document.objects.get()
    assert (document.pdf_url, document.title, document.open_access) == ("https://p.org/x", "T", "closed")
    assert [(lookup["source"], lookup["outcome"]) for lookup in document.lookups] == [
        ("unpaywall", "no address"), ("crossref", "found"), ("resolve", "found"),
    ]  # fmt: skip
    context = Execution.objects.get().context
    assert (context["host_key"], context["landing"]) == ("host:p.org:443", True)
    assert "example.org" not in json.dumps(document.lookups)
    assert set(Attempt.objects.values_list("outcome", flat=True)) == {"snoozed", "done"}


def test_a_source_that_fails_throttles_its_own_limit_and_the_rest_is_kept_for_the_next_try(
    papers: Papers, sources: Site, set_settings: Any
) -> None:
    with FaultyServer() as busy:
        refusal = busy.url("/status?code=429&retry-after=900&rest=")
        set_settings(unpaywall_url=refusal)
        papers.parse_item(DOI)
        assert resolve(papers) == ["", "resolver:unpaywall", "resolver:crossref", ""]
    assert Execution.objects.get().error_kind == "rate_limited"
    throttled = LimitState.objects.filter(open_until__gt=database_now() + timedelta(seconds=800))
    assert [state.name for state in throttled] == ["resolver:unpaywall"]
    assert Lookup.objects.get().source == "crossref"
    set_settings(unpaywall_url=sources.url)
    say(sources, UNPAYWALL, {"title": "T", "best_oa_location": {"url_for_pdf": f"{sources.url}/a"}})
    breakers.reset(["resolver:unpaywall"])
    let_time_pass(Execution.objects.all())
    dispatch()
    assert resolve(papers) == ["", "resolver:unpaywall"]
    assert sources.requested.count(CROSSREF) == 1, "its answer is still fresh"


def test_a_source_that_answers_closes_its_breaker_though_the_step_continues_elsewhere(
    papers: Papers, sources: Site
) -> None:
    papers.parse_item(DOI)
    LimitState.objects.create(name="resolver:unpaywall", failures=3)
    resolve(papers)
    assert LimitState.objects.get(name="resolver:unpaywall").failures == 0


def test_a_retry_by_a_person_asks_every_source_again(papers: Papers, sources: Site) -> None:
    papers.parse_item(DOI)
    resolve(papers)
    execution = Execution.objects.get()
    assert (execution.state, execution.error_kind) == (State.FAILED, "unresolvable")
    assert Document.objects.get().lookups[-1]["outcome"] == "unresolvable"
    say(sources, CROSSREF, {"message": {"resource": {"primary": {"URL": "https://p.org/x"}}}})
    executions.retry([execution], Actor("ann", "test", "found at last"))
    resolve(papers)
    assert Document.objects.get().pdf_url == "https://p.org/x"
    assert sources.requested == [UNPAYWALL, CROSSREF] * 2


def test_a_cached_answer_is_not_requested_again(papers: Papers, sources: Site) -> None:
    say(sources, UNPAYWALL, {"title": "T", "best_oa_location": {"url_for_pdf": f"{sources.url}/a"}})
    papers.parse_item(DOI)
    resolve(papers)
    Lease.objects.all().delete()
    Execution.objects.all().delete()
    papers.parse_item(DOI)
    assert resolve(papers) == [""]
    assert sources.requested.count(UNPAYWALL) == 1
    assert Document.objects.get().lookups[0]["cached"] is True


def test_the_requested_version_is_the_one_fetched(papers: Papers, site: Site) -> None:
    papers.parse_item("2101.00001v2")
    assert resolve(papers) == ["", "resolver:arxiv"]
    document = Document.objects.get()
    assert (document.source, document.arxiv_id) == ("2101.00001v2", "2101.00001v2")
    assert document.pdf_url == f"{site.url}/pdf/2101.00001v2"
    assert set(Execution.objects.get().route.limit_keys.split()) >= {"resolver:arxiv"}
