"""Periods of allowances: which one counts after an edit, and how long what was spent is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.base.allowance import parse_allowance
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.outcomes import Done
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import AllowanceClock, AllowanceSettlement, AllowanceUsage
from queuemgr.scheduling import allowance_clocks, limit_usage
from tests.integration.scheduling.limited_work import MODEL, Played, Probes, allow, clock_of, leased, spend

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rows_of_limits")]


def test_what_was_spent_long_ago_is_deleted_but_for_totals_and_what_ended_is_settled(
    played: Played, probes: Probes
) -> None:
    allow("6000 tokens/minute; 6000 tokens/minute calendar; 9000 tokens/day; 9000 tokens in total")
    allow("1000 tokens/day rolling", "tenant:acme")
    worker = played(slots=9)
    probes(1, limit_key=MODEL, tenant="acme", uses={"tokens": 10})
    (grant,) = worker.begin_all()
    spend(grant, tokens=3000)
    worker.end(grant, next_too=False)
    for days, left in ((1, "day minute total"), (3, "day total"), (401, "total")):
        now = database_now() + timedelta(days=days)
        limit_usage.prune_periods(now, 100)
        kinds = AllowanceUsage.objects.filter(limit=MODEL).values_list("allowance", flat=True)
        assert sorted(kind.split("/")[1] for kind in kinds) == left.split()
    allowance_clocks.prune(database_now() + timedelta(days=2), 100)
    assert not AllowanceSettlement.objects.exists()
    assert [clock.name for clock in AllowanceClock.objects.all()] == ["tenant:acme tokens/day/rolling"]
    ahead = clock_of("tenant:acme tokens/day/rolling")
    assert ahead - database_now().timestamp() == pytest.approx(3 * 86_400, abs=60), "its overrun still counts"
    allowance_clocks.prune(database_now() + timedelta(days=5), 100)
    assert not AllowanceClock.objects.exists()


@pytest.mark.parametrize("period", ["day", "week", "month"])
@pytest.mark.parametrize("edit", ["", "in Europe/Berlin", "in Pacific/Pago_Pago", "from {}", "high 5%"])
def test_an_edit_never_allows_again_what_was_spent_in_the_period(
    period: str, edit: str, played: Played, probes: Probes
) -> None:
    allow(f"1000 tokens/{period}")
    worker = played(slots=9)
    probes(2, limit_key=MODEL, uses={"tokens": 600})
    (grant,) = worker.begin_all()
    worker.end(grant, next_too=False)
    if edit == "in Europe/Berlin" and _another_day("Europe/Berlin"):
        return  # the next period may have begun there
    earlier = {"day": "00:01", "week": "mon 00:01", "month": "2"}[period]
    allow(f"1100 tokens/{period} {edit.format(earlier)}".strip())
    dispatch()
    assert leased() == 0
    allow(f"1300 tokens/{period} {edit.format(earlier)}".strip())
    dispatch()
    assert leased() == 1


@pytest.mark.parametrize("period", ["day", "week", "month", "week from tue", "month from 15"])
@pytest.mark.parametrize("meter", ["tokens", "requests"])
def test_an_allowance_that_is_stated_later_counts_what_was_used_since_its_period_began(
    period: str, meter: str, played: Played, probes: Probes
) -> None:
    worker = played(slots=9)
    probes(2, limit_key=MODEL, uses={"tokens": 600}, requests=600)
    (grant, other) = worker.begin_all()
    worker.end(grant, Done(cost=600), next_too=False)
    worker.end(other, Done(cost=600), next_too=False)
    allow(f"1300 {meter}/{period}")
    probes(1, limit_key=MODEL, uses={"tokens": 600}, requests=600, prefix="later")
    dispatch()
    assert leased() == 0
    if not period.startswith("day"):
        allow(f"1300 {meter}/day")
        dispatch()
        assert leased() == 0, "nor with another allowance"
    allow(f"1800 {meter}/{period}")
    dispatch()
    assert leased() == 1


def test_what_was_used_before_the_period_began_does_not_count_in_one_that_is_stated_later(
    played: Played, probes: Probes
) -> None:
    starts = parse_allowance("1 tokens/month").period_at(database_now()).starts
    for days, spent in ((-1, 900), (0, 300)):
        AllowanceUsage.objects.create(
            limit=MODEL, allowance="tokens/day", starts_at=starts + timedelta(days=days), spent=spent
        )
    allow("1000 tokens/month")
    played(slots=9)
    probes(2, limit_key=MODEL, uses={"tokens": 600})
    assert leased() == 1


def _another_day(zone: str) -> bool:
    return database_now().astimezone(ZoneInfo(zone)).date() != database_now().astimezone(UTC).date()


@given(
    st.integers(0, 366 * 24).map(lambda hours: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours)),
    st.sampled_from(["day", "day from 23:30", "week", "week from tue 03:00", "month", "month from 31"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
)
def test_without_an_edit_one_period_alone_counts(moment: datetime, period: str, zone: str) -> None:
    allowance = parse_allowance(f"1 tokens/{period}")
    starts, ends = allowance.period_at(moment, zone)
    after, until = allowance.counted_at(moment, zone)
    earlier = allowance.period_at(starts - timedelta(seconds=1), zone).starts
    assert earlier <= after < starts < until == ends
