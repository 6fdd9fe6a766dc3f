"""The fetch step run by the queue: other URLs and hosts under their own limits, stored copies kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.utils import timezone

from pipeline import files
from pipeline.config import pipeline_settings
from pipeline.models import Document
from queuemgr.flows import retry_policy
from queuemgr.models import LimitState, State
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from tests.integration.pipeline.fetch_fixtures import Fetching, execution_of, is_fetched, outcomes
from tests.integration.pipeline.steps import faulty_ranges
from tests.integration.pipeline.steps.faulty_server import FaultyServer, pdf

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _private_addresses(set_settings: Callable[..., None]) -> None:
    set_settings(allow_private_addresses=1)


@pytest.fixture
def site() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@pytest.fixture
def mirror() -> Iterator[FaultyServer]:
    """Another host."""
    with FaultyServer() as server:
        yield server


@pytest.fixture
def fetching(played: Callable[..., Any], settings: Any) -> Fetching:
    return Fetching(played(slots=8), Path(settings.MEDIA_ROOT))


def key(server: FaultyServer) -> str:
    return f"host:{server.host}"


def fresh(document: Document) -> Document:
    return Document.objects.get(pk=document.pk)


def outcomes_of(document: Document) -> list[str]:
    """The outcome of each URL, as logged with the document."""
    return [line["outcome"] for line in fresh(document).lookups]


# Several addresses


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/nowhere", "not_found"),
        ("/status?code=403", "http_error"),
        ("/body?text=<html>no", "not_pdf"),
        ("/loop", "http_error"),
    ],
)
def test_when_an_address_fails_for_good_the_next_is_tried_under_its_own_host(
    path: str, kind: str, fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    document = fetching.put(site.url(path), mirror.url("/pdf"))
    assert is_fetched(document)
    assert outcomes() == ["snoozed", "done"]
    assert fetching.asked_under == [key(site), key(mirror)]
    assert outcomes_of(document) == [kind, "kept"]
    now = fresh(document)
    assert (now.pdf_url, now.other_urls) == (mirror.url("/pdf"), [])
    assert now.fetched_from == mirror.url("/pdf")


def test_when_all_addresses_fail_the_error_is_the_last_ones_and_names_them_all(
    fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    bad = "http://[no-host/"
    document = fetching.put(site.url("/status?code=403"), bad, mirror.url("/gone"))
    execution = execution_of(document)
    assert (execution.state, execution.error_kind) == (State.FAILED, "not_found")
    assert mirror.url("/gone") in execution.error_message
    assert f"tried before it: http_error: {site.url('/status')}" in execution.error_message


def test_a_manual_retry_tries_every_address_again(
    fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    document = fetching.put(site.url("/one"), mirror.url("/two"))
    execution = execution_of(document)
    assert execution.state == State.FAILED
    executions.retry([execution], Actor("sam", "test"))
    again = fetching.again(execution)
    assert (again.state, len(site.hits), len(mirror.hits)) == (State.FAILED, 2, 2)
    site.put("/one", None)
    executions.retry([again], Actor("sam", "test"))
    fetching.again(again)
    assert (len(site.hits), len(mirror.hits)) == (3, 3), "each once in a round, however they end"


def test_an_address_that_fails_again_and_again_gives_way_to_another(
    fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    """Both failures are recorded at its limit; the remaining attempts are not waited for."""
    document = fetching.put(site.url("/status?code=503"), mirror.url("/pdf"))
    fetching.again(execution_of(document))
    fetching.again(execution_of(document))
    assert is_fetched(document)
    assert outcomes() == ["retried", "retried", "snoozed", "done"]
    assert (len(site.hits), outcomes_of(document)) == (2, ["server_error", "kept"])


def test_a_403_of_arxiv_opens_its_breaker_for_the_whole_fleet_instead_of_failing_the_paper(
    fetching: Fetching, site: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """arXiv regards requests after a 403 as an attack."""
    monkeypatch.setenv("SLUICE_ARXIV_URL", site.url(""))
    pipeline_settings.cache_clear()
    document = fetching.put(site.url("/status?code=403"))
    assert execution_of(document).error_kind == "rate_limited"
    state = LimitState.objects.get(name="resolver:arxiv")
    assert state.open_until is not None
    assert state.open_until - timezone.now() > timedelta(hours=5)
    assert not LimitState.objects.filter(name=key(site), open_until__isnull=False).exists()


@pytest.fixture
def one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 429 is not retried."""
    monkeypatch.setitem(retry_policy.POLICIES, "rate_limited", retry_policy.no_retry("not again"))


def throttled_for(server: FaultyServer) -> float:
    """Seconds until requests to this host start again; 0: now."""
    state = LimitState.objects.filter(name=key(server)).first()
    if state is None or state.open_until is None:
        return 0
    return (state.open_until - timezone.now()).total_seconds()


def test_a_host_is_throttled_for_its_retry_after_though_another_url_is_used(
    one_try: None, fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    document = fetching.put(site.url("/status?code=429&retry-after=120"), mirror.url("/pdf"))
    assert is_fetched(document)
    assert outcomes() == ["snoozed", "done"]
    assert throttled_for(site) > 60
    assert not throttled_for(mirror)


def test_a_host_that_rate_limits_is_throttled_though_our_copy_is_kept(
    one_try: None, fetching: Fetching, site: FaultyServer
) -> None:
    fetching.put(site.url("/pdf"))
    fetching.forget()
    site.put("/pdf", None, 429)
    document = fetching.put(site.url("/pdf"), refetch=True)
    assert (is_fetched(document), outcomes_of(document)) == (True, ["kept", "rate_limited"])
    assert throttled_for(site) > 0


def test_a_host_that_asks_for_a_long_wait_gives_way_to_another_at_once(
    fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    document = fetching.put(site.url("/status?code=503&retry-after=1800"), mirror.url("/pdf"))
    assert is_fetched(document)
    assert outcomes() == ["snoozed", "done"]
    assert throttled_for(site) > 900


def test_a_host_that_asks_for_a_short_wait_is_waited_for(
    fetching: Fetching, site: FaultyServer, mirror: FaultyServer
) -> None:
    fetching.put(site.url("/status?code=503&retry-after=600"), mirror.url("/pdf"))
    assert (outcomes(), mirror.hits) == (["retried"], [])


def test_a_lone_address_is_tried_as_often_as_its_policy_says(fetching: Fetching, site: FaultyServer) -> None:
    document = fetching.put(site.url("/cut"))
    for _ in range(3):
        fetching.again(execution_of(document))
    assert outcomes() == ["retried"] * 4


# Copies


def test_a_stored_copy_is_not_requested_again_without_a_refresh(
    fetching: Fetching, site: FaultyServer
) -> None:
    refetched(fetching, site, "/conditional", refetch=False)
    assert len(site.hits) == 1


def test_a_copy_requested_again_is_kept_if_it_has_not_changed(fetching: Fetching, site: FaultyServer) -> None:
    document = refetched(fetching, site, "/conditional")
    assert site.seen[1]["if-none-match"] == 'W/"seven"'
    assert (is_fetched(document), outcomes_of(document)) == (True, ["kept", "unchanged"])
    assert len(fetching.stored()) == 1


@pytest.mark.parametrize("page", ["<html>sign in", ""])
def test_an_earlier_copy_is_never_harmed_by_what_comes_later(
    page: str, fetching: Fetching, site: FaultyServer
) -> None:
    """Requested again, the site sends a login page, or nothing; the stored copy stays."""
    url = "/once?then=" + quote(page)
    document = refetched(fetching, site, url)
    assert (is_fetched(document), outcomes_of(document)) == (True, ["kept", "not_pdf"])
    assert Path(fresh(document).pdf.path).read_bytes() == pdf()


def test_a_copy_that_changed_is_stored_beside_the_earlier_one(fetching: Fetching, site: FaultyServer) -> None:
    document = refetched(fetching, site, "/once?then=" + quote(pdf(60).decode()))
    assert (is_fetched(document), fresh(document).size) == (True, 60)
    assert len(fetching.stored()) == 2


def test_a_stored_file_that_lost_its_end_is_fetched_again(fetching: Fetching, site: FaultyServer) -> None:
    document = fetching.put(site.url("/pdf"))
    Path(fresh(document).pdf.path).write_bytes(b"%PDF-1.7 half")
    fetching.forget()
    fetching.put(site.url("/pdf"))
    assert Path(fresh(document).pdf.path).read_bytes() == pdf()
    assert len(fetching.stored()) == 1


def refetched(fetching: Fetching, site: FaultyServer, path: str, refetch: bool = True) -> Document:
    """A document that was fetched, enqueued again."""
    fetching.put(site.url(path))
    fetching.forget()
    return fetching.put(site.url(path), refetch=refetch)


@pytest.mark.parametrize("overwrites", [True, False])
def test_the_same_bytes_under_two_names_are_one_file_and_written_once(
    overwrites: bool, fetching: Fetching, site: FaultyServer, settings: Any
) -> None:
    """Also on a storage that renames a file if its name is taken."""
    storages = dict(settings.STORAGES)
    storages["default"] = {**storages["default"], "OPTIONS": {"allow_overwrite": overwrites}}
    settings.STORAGES = storages
    first = fetching.put(site.url("/pdf?x=1"))
    before = os.stat(fresh(first).pdf.path)
    second = fetching.put(site.url("/pdf?x=2"))
    assert fresh(first).pdf.name == fresh(second).pdf.name
    assert len(fetching.stored()) == 1
    after = os.stat(fresh(first).pdf.path)
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not any(files.scratch().iterdir())


# Disks


def test_a_scratch_folder_that_cannot_be_made_is_a_storage_failure(
    fetching: Fetching, site: FaultyServer, settings: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    settings.SLUICE_SCRATCH = tmp_path / "file" / "scratch"
    execution = execution_of(fetching.put(site.url("/pdf")))
    assert (execution.state, execution.error_kind) == (State.WAITING, "storage")


def test_partial_files_are_removed_after_a_day(fetching: Fetching, site: FaultyServer) -> None:
    fetching.put(site.url("/ranged?id=tidy&then=503"))
    [left] = files.scratch().iterdir()
    assert left.stat().st_size == faulty_ranges.CUT
    assert files.cleanup() == 0
    day_ago = time.time() - files.SCRATCH_SECONDS - 1
    os.utime(left, (day_ago, day_ago))
    assert files.cleanup() == 1
