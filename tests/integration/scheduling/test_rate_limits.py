"""Rates: one start after another, bursts, starts granted early, and a rate for each key of a pattern."""

from __future__ import annotations

import re

import pytest
from django.core.exceptions import ValidationError

from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import AllowanceClock, Execution, Lease, Limit
from queuemgr.operations import controls
from queuemgr.reporting import explain
from queuemgr.scheduling import limit_rows, snapshot
from tests.integration.scheduling.limited_work import ANN, Played, Probes, leased, pass_time

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rows_of_limits")]


def test_a_rate_allows_one_start_and_the_next_an_interval_later(played: Played, probes: Probes) -> None:
    """The clock moves on when a start begins, not when it is granted, so a late message
    cannot bring two together."""
    controls.edit_limit("host:a", ANN, rate="1/30s")
    worker = played(slots=5)
    probes(3, limit_key="host:a")
    assert leased() == 1, "one is on its way and nobody has begun it: it counts as beginning now"
    dispatch()
    assert leased() == 1
    worker.begin_all()
    dispatch()
    assert leased() == 1
    pass_time("host:a", 29)
    assert leased() == 1
    pass_time("host:a", 1.1)
    assert leased() == 2


@pytest.mark.parametrize("ahead", [2 * 86_400, 3600, 30])
def test_a_rate_clock_days_ahead_lets_work_start_within_its_interval(
    played: Played, probes: Probes, ahead: float
) -> None:
    """The rate was one an hour before, or the machine's clock has been set back by two days."""
    controls.edit_limit("host:a", ANN, rate="5/s")
    AllowanceClock.objects.create(name="host:a starts", clock=database_now().timestamp() + ahead)
    played(slots=5)
    probes(3, limit_key="host:a")
    assert leased() == 0
    pass_time("host:a", 1.3)
    assert leased() == 1


@pytest.fixture
def lead_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than these tests take from one step to the next."""
    monkeypatch.setattr(snapshot, "LEAD", 1.0)


@pytest.mark.usefixtures("lead_of_a_second")
def test_a_start_is_granted_early_and_booked_when_it_conforms(played: Played, probes: Probes) -> None:
    """The next start conforms an interval after this one, not after the message that came early."""
    controls.edit_limit("host:a", ANN, rate="1/30s")
    worker = played(slots=5)
    probes(3, limit_key="host:a")
    (first,) = worker.begin_all()
    began = Lease.objects.get(pk=first.lease_id).started_at
    pass_time("host:a", 29.2)
    assert leased() == 2, "it is granted"
    (second,) = worker.begin_all()
    starts = Lease.objects.get(pk=second.lease_id).started_at
    assert began and starts
    assert (starts - began).total_seconds() == pytest.approx(0.8, abs=1e-4)
    clock = AllowanceClock.objects.get(name="host:a starts").clock
    assert clock == pytest.approx(starts.timestamp() + 30, abs=1e-4)


@pytest.mark.usefixtures("lead_of_a_second")
def test_work_that_needs_no_rate_takes_a_slot_before_work_whose_rate_is_about_to_allow_it(
    played: Played, probes: Probes
) -> None:
    controls.edit_limit("host:a", ANN, rate="1/30s")
    worker = played(slots=1)
    probes(2, limit_key="host:a", prefix="rated")
    (first,) = worker.begin_all()
    pass_time("host:a", 29.2)
    probes(1, prefix="free")
    assert [grant.key for grant in worker.end(first)] == ["free0"]


def test_a_burst_starts_at_once_and_no_more_than_that(played: Played, probes: Probes) -> None:
    controls.edit_limit("host:a", ANN, rate="2/1m burst 3")
    worker = played(slots=9)
    probes(9, limit_key="host:a")
    assert leased() == 3
    worker.begin_all()
    dispatch()
    assert leased() == 3
    pass_time("host:a", 30.1)
    assert leased() == 4


def test_a_pattern_gives_every_key_its_own_rate(played: Played, probes: Probes) -> None:
    controls.edit_limit("host:*", ANN, rate="1/1h")
    played(slots=9)
    probes(3, limit_key="host:a", prefix="a")
    probes(3, limit_key="host:b", prefix="b")
    assert sorted(Lease.objects.values_list("limit_keys", flat=True)) == ["host:a", "host:b"]


def test_the_services_papers_come_from_have_default_rates() -> None:
    limit_rows.sync()
    rows = {limit.name: limit for limit in Limit.objects.exclude(rate="")}
    assert rows["resolver:arxiv"].rate == "1/3s"
    assert {"resolver:crossref", "resolver:openalex", "resolver:unpaywall"} <= rows.keys()
    assert "resolver:semanticscholar" in rows


def test_a_limit_may_have_several_rates_and_starts_conform_to_each(played: Played, probes: Probes) -> None:
    controls.edit_limit(
        "host:a", ANN, rate="100/s burst 100", allowances="3 starts/hour; 9 starts/day rolling"
    )
    worker = played(slots=9)
    probes(5, limit_key="host:a")
    assert len(worker.begin_all()) == 3
    waiting = Execution.objects.waiting().first()
    assert waiting and re.search(r"host:a next in 1[12]\d\d\.\d s", explain.reasons().of(waiting))
    with pytest.raises(ValidationError, match="so their allowances are rolling"):
        controls.edit_limit("host:a", ANN, allowances="5 starts/day")


@pytest.mark.parametrize("rate", ["1/20m burst 6", "1/d burst 6"])
def test_an_edit_of_a_rate_frees_nothing_of_what_is_used_and_makes_no_debt(
    rate: str, played: Played, probes: Probes
) -> None:
    controls.edit_limit("host:a", ANN, rate="1/h burst 4", max_running=0)
    worker = played(slots=9)
    probes(9, limit_key="host:a")
    assert len(worker.begin_all()) == 4
    controls.edit_limit("host:a", ANN, rate=rate)
    dispatch()
    assert len(worker.begin_all()) == 2, "four of the six are used"


def test_a_rate_of_a_resource_holds_for_what_takes_it(played: Played, probes: Probes) -> None:
    controls.edit_limit("cpu", ANN, rate="1/h")
    worker = played(slots=5)
    probes(3, resources={"cpu": 1})
    assert len(worker.begin_all()) == 1
    dispatch()
    assert leased() == 1
