"""The fetch step with redirects to other hosts: each is requested under its own limit, and chains end."""

# ruff: noqa: F401, F811 - fixtures are imported by name and given to tests by name

from __future__ import annotations

import time
from urllib.parse import quote

import pytest

from queuemgr.models import State
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from tests.integration.pipeline.fetch_fixtures import Fetching, execution_of, is_fetched, outcomes
from tests.integration.pipeline.steps.faulty_server import FaultyServer
from tests.integration.pipeline.test_fetch_step import (
    _private_addresses,
    fetching,
    fresh,
    key,
    mirror,
    outcomes_of,
    site,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_redirect_to_another_host_continues_under_that_hosts_limit(
    fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    url = site.url(f"/to?url={quote(mirror.url('/pdf?token=s3cret'), safe='')}")
    document = fetching.put(url)
    assert is_fetched(document)
    assert fetching.asked_under == [key(site), key(mirror)]
    now = fresh(document)
    assert (now.pdf_url, now.fetched_from) == (url, mirror.url("/pdf"))
    assert execution_of(document).context["fetch"] == {}, "the signed link is forgotten"


@pytest.fixture
def old_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every redirect has expired when its host's limit admits it, as with a long queue there."""
    monkeypatch.setattr("pipeline.steps.fetch.fetch_state.REDIRECT_LIFETIME", -1.0)


def test_a_redirect_that_expired_in_its_hosts_queue_is_followed_all_the_same(
    old_at_once: None, fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    """Requested again it would expire again, endlessly."""
    document = fetching.put(site.url(f"/to?url={quote(mirror.url('/pdf'), safe='')}"))
    assert is_fetched(document)
    assert fetching.asked_under == [key(site), key(mirror)]
    assert (len(site.hits), len(mirror.hits)) == (1, 1)


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_an_expired_redirect_its_host_refuses_is_requested_again(
    status: int, fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    """A retry an hour later must not fail because of a link that was valid for minutes."""
    url = site.url(f"/to?url={quote(mirror.url('/status?code=503'), safe='')}")
    execution = execution_of(fetching.put(url))
    assert (execution.state, outcomes()) == (State.WAITING, ["snoozed", "retried"])
    execution.context["fetch"]["redirect_expires_at"] = time.time() - 1
    execution.context["fetch"]["redirect_url"] = mirror.url(f"/status?code={status}")
    execution.save()
    fetching.again(execution)
    assert fetching.asked_under == [key(site), key(mirror), key(mirror), key(site), key(mirror)]
    assert (len(site.hits), len(mirror.hits)) == (2, 3)


def test_a_redirect_refused_on_a_retry_is_asked_for_again_once(
    fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    url = site.url(f"/to?url={quote(mirror.url('/status?code=503'), safe='')}")
    execution = execution_of(fetching.put(url))
    execution.context["fetch"]["redirect_url"] = mirror.url("/status?code=403")
    execution.save()
    site.redirects["/to"] = mirror.url("/gone")
    ended = fetching.again(execution)
    assert (ended.state, len(site.hits), len(mirror.hits)) == (State.FAILED, 2, 3)


def test_redirects_that_are_always_refused_end(
    old_at_once: None, fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    url = site.url(f"/to?url={quote(mirror.url('/status?code=403'), safe='')}")
    execution = execution_of(fetching.put(url))
    assert (execution.state, execution.error_kind) == (State.FAILED, "http_error")
    assert (len(site.hits), len(mirror.hits)) == (6, 5)


def test_a_manual_retry_counts_redirects_from_zero(
    fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    there = site.url("/back")
    site.redirects["/back"] = mirror.url(f"/to?url={quote(there, safe='')}")
    document = fetching.put(there)
    execution = execution_of(document)
    assert execution.state == State.FAILED
    site.redirects["/back"] = mirror.url("/pdf")
    executions.retry([execution], Actor("sam", "test"))
    fetching.again(execution)
    assert is_fetched(document)


def test_redirects_between_two_hosts_end(
    fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    """A loop is counted although each hop is a separate run."""
    there = site.url("/back")
    mirror_url = mirror.url(f"/to?url={quote(there, safe='')}")
    site.redirects["/back"] = mirror_url
    execution = execution_of(fetching.put(there))
    assert (execution.state, execution.error_kind) == (State.FAILED, "http_error")
    assert len(site.hits) + len(mirror.hits) == 6


def test_the_pdf_a_page_names_on_another_host_is_asked_for_under_that_hosts_limit(
    fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    text = f'<html><meta name="citation_pdf_url" content="{mirror.url("/pdf")}">'
    text += '<meta name="citation_title" content="On gates"><meta name="citation_author" content="Abel, A.">'
    document = fetching.put(site.url(f"/body?text={quote(text, safe='')}"), landing=True)
    assert is_fetched(document)
    assert fetching.asked_under == [key(site), key(mirror)]
    assert (fresh(document).pdf_url, outcomes_of(document)) == (mirror.url("/pdf"), ["page", "kept"])
    assert (fresh(document).title, fresh(document).authors) == ("On gates", ["A. Abel"])
    assert {each["source"] for each in fresh(document).metadata or ()} == {"landing page"}
    assert site.seen[0]["accept"].startswith("text/html")
    assert mirror.seen[0]["accept"].startswith("application/pdf")
