"""Papers from hosts that answer in every way the web does: each ends as it must, no host is pressed."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.faulty_web_server import KINDS, FaultyWebServer, most_at_once, too_early
from tests.acceptance.fleet import Fleet

PER_HOST = 4
WORD_GETS_ROUND = 1.0
"""Seconds after which no start may follow a Retry-After: steps begun before it continue."""


@pytest.fixture
def quick(make_fleet: MakeFleet) -> Fleet:
    """A fleet in which what never answers costs seconds."""
    return make_fleet(
        allow_private_addresses=1, fetch_deadline=6, fetch_min_speed_seconds=2, breaker_seconds=0.1,
        fetch_max_bytes=2_000_000, max_per_host=PER_HOST, lease_seconds=60,
    )  # fmt: skip


def give_up_soon(fleet: Fleet) -> None:
    """Two tries of what never mends; what asks for a wait may ask as often as it likes."""
    for kind in ("network", "timeout", "server_error", "rate_limited"):
        tries = ("--max-attempts", "2") if kind != "rate_limited" else ()
        fleet.queue("policy", kind, *tries, "--base", "0.2", "--ceiling", "0.5", "--jitter", "0.1")


def run(fleet: Fleet, hosts: int, count: int, slots: int, within: float) -> None:
    """Take in so many documents, work until none is left, and hold every one to how it must end."""
    with FaultyWebServer(hosts) as server:
        expected = server.documents(count)
        listed = fleet.directory / "papers.txt"
        listed.write_text("\n".join(expected))
        fleet.start_worker(slots)
        give_up_soon(fleet)
        assert f"{count} new" in fleet.queue("import", str(listed))
        fleet.wait_until("all ended", lambda: set(fleet.states()) <= {"done", "failed"}, within=within)
        log = list(server.log)
    got = dict(
        fleet.database.rows(
            "SELECT substr(key, 5), CASE state WHEN 'done' THEN state ELSE error_kind END "
            "FROM queuemgr_execution"
        )
    )
    wrong = {url: (how, got.get(url)) for url, how in expected.items() if got.get(url) != how}
    assert wrong == {}
    assert Counter(got.values()) == Counter(expected.values())
    assert max(most_at_once(log).values()) <= PER_HOST
    assert too_early(log, WORD_GETS_ROUND) == []


@pytest.mark.slow_proof
def test_papers_from_hosts_of_every_kind_end_as_expected_and_no_host_is_overloaded(quick: Fleet) -> None:
    run(quick, hosts=3, count=len(KINDS), slots=12, within=300)


@pytest.mark.slow_proof
def test_a_thousand_mixed_papers_end_as_expected_and_no_host_is_overloaded(quick: Fleet) -> None:
    """429, 503, stalls, resets, redirects, pages, truncation, lies."""
    assert sum(kind.share for kind in KINDS.values()) <= 1000
    run(quick, hosts=8, count=1000, slots=32, within=1500)
