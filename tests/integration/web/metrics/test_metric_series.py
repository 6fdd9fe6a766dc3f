"""Which series there are: as many as limits and error kinds with a name, each from the start."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Lost, Skipped, Snoozed
from queuemgr.lifecycle import minute_stats
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import Attempt, Execution, Limit, LimitState, Route
from queuemgr.scheduling import retry_policies
from tests.integration.web.metrics.scraping import Key, scrape

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("static_root")]
Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]


def _many_hosts(count: int) -> None:
    """Breaker states of so many hosts, rows of a tenth of them and of tenants, and rare kinds of errors."""
    now, execution = database_now(), Execution.objects.first()
    hosts = [f"host:h{number}.example:443" for number in range(count)]
    states = [LimitState(name=host, open_until=now + timedelta(hours=1)) for host in hosts]
    LimitState.objects.bulk_create(states, batch_size=5000)
    numbers = range(count // 10)
    names = [*hosts[::10], *(f"{kind}:{number}" for kind in ("tenant", "batch") for number in numbers)]
    Limit.objects.bulk_create([Limit(name=name, max_running=1) for name in names])
    Attempt.objects.bulk_create(
        Attempt(
            lease_id=uuid4(), execution=execution, phase="prep", step="probe", priority=1, cost=1,
            leased_at=now, started_at=now, ended_at=now, outcome="failed", error_kind=f"odd-{number}",
            limit_keys=hosts[number], worker=f"w{number}@h",
        )
        for number in range(count // 20)
    )  # fmt: skip


def test_ten_thousand_hosts_errors_and_workers_make_no_series(played: Played, probes: Probes) -> None:
    played()
    probes(2, limit_key="host:a.example:443")
    with CaptureQueriesContext(connection) as few:
        before = scrape()
    _many_hosts(10_000)
    with CaptureQueriesContext(connection) as many:
        after = scrape()
    assert len(few) <= len(many) <= len(few) + 1 < 40, "what was used lately, where there are attempts"
    assert len(after.samples) - len(before.samples) <= 3, "a new outcome"
    assert after("sluicegate_limit_breaker_open", limit="host:*") == 10_000
    failed = after.total("sluicegate_attempts_total", outcome="failed", error_kind="other")
    assert failed == 500
    assert "example" not in after.text


def test_keys_payloads_and_messages_are_in_no_metric(played: Played, probes: Probes) -> None:
    worker = played()
    probes(1, prefix="secret-key-", note="secret payload")
    worker.end(worker.begin_all()[0], Failed("not_found", "secret message"))
    dispatch()
    assert "secret" not in scrape().text
    assert Route.objects.count() > 0


def test_every_series_of_the_counters_exists_at_0_before_anything_ran() -> None:
    """`increase()` of a series that is first seen at 30 is nothing, so an alert would stay silent."""
    seen = scrape()
    for phase in ("prep", "expensive", "wrap"):
        for priority in ("high", "normal", "low"):
            at = {"phase": phase, "priority": priority}
            assert seen("sluicegate_starts_total", **at) == 0
            assert seen("sluicegate_wait_seconds_bucket", **at, le="+Inf") == 0
            for outcome in ("done", "skipped", "snoozed", "interrupted"):
                assert seen("sluicegate_attempts_total", **at, outcome=outcome, error_kind="") == 0
            for kind in (*retry_policies.kinds(), "other"):
                assert seen("sluicegate_attempts_total", **at, outcome="failed", error_kind=kind) == 0
            for kind in ("", "poison"):
                assert seen("sluicegate_attempts_total", **at, outcome="lost", error_kind=kind) == 0


def test_no_series_of_a_counter_is_born_with_its_first_event(played: Played, probes: Probes) -> None:
    """Whatever happens to work, the series it counts in were in the scrape before."""
    before = counted_series()
    worker = played(slots=8)
    ends = [
        Done(),
        Skipped("no"),
        Snoozed(5, "later"),
        Interrupted("a shutdown"),
        Failed("network", "refused"),
        Failed("not_found", "gone"),
        Failed("made_up", "a kind nobody declared"),
        Lost(),
    ]
    probes(len(ends))
    for grant, end in zip(worker.begin_all(), ends, strict=True):
        worker.end(grant, end)
    minute_stats.roll_up(database_now() + timedelta(minutes=2))
    assert counted_series() == before


def counted_series() -> set[Key]:
    return {key for key in scrape().samples if key[0].endswith(("_total", "_bucket"))}
