"""Allowances of limits in any meter: reserved at a start, charged by what was used, settled once."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import F

from queuemgr import StepFailed, Work
from queuemgr.base.errors import BadInput, NeverFits
from queuemgr.base.meters import MAX_AMOUNT
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Lost
from queuemgr.lifecycle import finish, leases
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import AllowanceClock, AllowanceSettlement, AllowanceUsage, Attempt, Lease, Limit, Route
from queuemgr.scheduling import candidates, wakeups
from queuemgr.scheduling.admission import admit
from queuemgr.scheduling.snapshot import read_snapshot
from tests.integration.scheduling.limited_work import (
    MODEL,
    Played,
    Probes,
    allow,
    clock_at,
    clock_of,
    leased,
    spend,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rows_of_limits")]


def let_refill(seconds: float) -> None:
    """Set the clocks back, as if so much time had passed."""
    for clock in AllowanceClock.objects.all():
        AllowanceClock.objects.filter(pk=clock.pk).update(clock=clock.clock - seconds)
    wakeups.post(limits=[wakeups.EVERYTHING])
    dispatch()


def test_no_start_brings_what_is_reserved_and_spent_above_an_allowance_of_a_day(
    played: Played, probes: Probes
) -> None:
    allow("1000 tokens/day")
    worker = played(slots=50)
    probes(9, limit_key=MODEL, uses={"tokens": 320})
    assert leased() == 3
    for grant in worker.begin_all():
        spend(grant, tokens=100)
        worker.end(grant, next_too=False)
    dispatch()
    assert leased() == 2, "1,000 less 300 spent"
    assert AllowanceUsage.objects.get(limit=MODEL).spent == 300


def test_what_a_step_used_is_charged_whatever_was_estimated(played: Played, probes: Probes) -> None:
    allow("1000 tokens/day")
    worker = played(slots=1)
    probes(3, limit_key=MODEL, uses={"tokens": 95})
    (grant,) = worker.begin_all()
    work = Work(grant, AbortSignal())
    work.spend(tokens=500)
    work.spend(tokens=600)
    worker.end(grant, next_too=False)
    assert AllowanceUsage.objects.get(limit=MODEL).spent == 1_100, "an overrun counts"
    dispatch()
    assert leased() == 0
    assert Attempt.objects.get().uses == "tokens=1100"


def test_an_overrun_of_running_work_is_held_against_the_allowance_at_once(
    played: Played, probes: Probes
) -> None:
    allow("1000 tokens/day")
    worker = played(slots=2)
    probes(1, limit_key=MODEL, uses={"tokens": 95})
    (grant,) = worker.begin_all()
    spend(grant, tokens=950)
    probes(1, limit_key=MODEL, uses={"tokens": 95}, prefix="next")
    assert leased() == 1
    worker.end(grant, next_too=False)


@pytest.mark.parametrize(
    ("result", "reported", "charged"),
    [
        (Done(), None, 95), (Done(), 40, 40), (Failed("fatal", "x"), None, 95),
        (Failed("fatal", "x"), 40, 40), (Failed("fatal", "x"), 0, 0), (Done(), 0, 0),
        (Interrupted("stop"), None, 0), (Interrupted("stop"), 40, 40), (Interrupted("stop"), 0, 0),
        (Lost("gone"), None, 0), (Lost("gone"), 40, 40),
    ],
)  # fmt: skip
@pytest.mark.parametrize("period", ["day", "minute"])
def test_what_is_charged_is_what_was_reported_or_else_the_estimate_unless_it_was_broken_off(
    result: Any, reported: int | None, charged: int, period: str, played: Played, probes: Probes
) -> None:
    allow(f"95 tokens/{period}")
    worker = played(slots=1)
    probes(1, limit_key=MODEL, uses={"tokens": 95})
    (grant,) = worker.begin_all()
    if reported is not None:
        spend(grant, tokens=reported)
    finish.finish_leases([finish.Finish(grant.lease_id, result)], database_now())
    if period == "day":
        assert _tokens_charged(MODEL) == charged
    else:
        clock = clock_of(f"{MODEL} tokens/minute")
        used = 95 * (clock - database_now().timestamp()) / 60
        assert used == pytest.approx(charged, abs=20), "it refills while the test runs"
    assert (Attempt.objects.get().uses or "tokens=0") == f"tokens={charged}"


def test_tokens_per_minute_let_a_burst_through_and_then_as_much_as_refills(
    played: Played, probes: Probes
) -> None:
    allow("6000 tokens/minute")
    worker = played(slots=50)
    probes(40, limit_key=MODEL, uses={"tokens": 950})
    assert leased() == 6
    for grant in worker.begin_all():
        worker.end(grant, next_too=False)
    dispatch()
    assert leased() == 0
    let_refill(10)
    assert leased() == 1


def test_what_was_not_used_is_given_back_to_a_rolling_allowance_and_settled_once(
    played: Played, probes: Probes
) -> None:
    allow("6000 tokens/hour")
    worker = played(slots=50)
    probes(20, limit_key=MODEL, uses={"tokens": 950})
    grants = worker.begin_all()
    assert len(grants) == 6
    for grant in grants:
        spend(grant, tokens=480)
        worker.end(grant, next_too=False)
        worker.end(grant, next_too=False)  # once more, as after a lost answer: nothing happens twice
    assert AllowanceSettlement.objects.count() == 6
    dispatch()
    assert leased() == 3
    worker.begin_all()
    assert not AllowanceSettlement.objects.exists(), "taken by the next booking"


def test_what_a_provider_refused_is_not_given_back_to_a_rolling_allowance(
    played: Played, probes: Probes
) -> None:
    """It has less left than we thought; a day's dollars were not spent."""
    allow("950 tokens/minute; 9500 tokens/day")
    worker = played(slots=50)
    probes(2, limit_key=MODEL, uses={"tokens": 950})
    (grant,) = worker.begin_all()
    spend(grant, tokens=0)
    worker.end(grant, Failed("rate_limited", "429"), next_too=False)
    assert not AllowanceSettlement.objects.exists()
    assert _tokens_charged(MODEL) == 0
    dispatch()
    assert leased() == 0


def _tokens_charged(limit: str) -> int:
    spent = AllowanceUsage.objects.filter(limit=limit, allowance="tokens/day")
    return sum(spent.values_list("spent", flat=True))


def test_a_lease_that_was_never_begun_costs_nothing(played: Played, probes: Probes) -> None:
    allow("1000 tokens/minute; 1000 tokens/day")
    played(slots=5)
    probes(2, limit_key=MODEL, uses={"tokens": 950})
    assert leased() == 1
    leases.revoke_unstarted(Lease.objects.values_list("pk", flat=True))
    dispatch()
    assert leased() == 1
    assert not AllowanceUsage.objects.exists()


def test_every_allowance_of_every_limit_must_have_room(played: Played, probes: Probes) -> None:
    allow("100000 tokens/minute; 0.05 usd/day")
    allow("0.03 usd/day", "tenant:acme")
    played(slots=50)
    probes(9, limit_key=MODEL, tenant="acme", uses={"tokens": 100, "usd": 0.01}, prefix="a")
    assert leased() == 3
    probes(9, limit_key=MODEL, tenant="busy", uses={"tokens": 100, "usd": 0.01}, prefix="b")
    assert leased() == 5, "of 0.05 usd for all"


def test_a_pattern_gives_each_key_its_own_allowance(played: Played, probes: Probes) -> None:
    allow("100 tokens/day", "tenant:*")
    played(slots=50)
    for tenant in ("a", "b"):
        probes(5, tenant=tenant, uses={"tokens": 48}, prefix=tenant)
    assert leased() == 4


def test_work_that_could_never_start_is_refused_when_it_is_enqueued(played: Played, probes: Probes) -> None:
    allow("100 tokens/day")
    with pytest.raises(NeverFits, match="500 tokens is above the allowance 100 tokens/day"):
        probes(1, limit_key=MODEL, uses={"tokens": 500})


REASONS = {
    "1000 tokens/day": "openai:gpt tokens 0 of 1,000 per day spent and 950 reserved, resets 20",
    "1000 tokens/minute": "openai:gpt tokens 950 of 1,000 per minute, next in 54",
    "0.02 usd in total": "openai:gpt usd 0.00 of 0.02 in total spent and 0.011 reserved",
    "1000 tokens/day high 4%": "openai:gpt tokens 0 of 1,000 per day spent and 950 reserved, the last 40",
}


@pytest.mark.parametrize("text", REASONS)
def test_why_it_waits_is_said_with_the_amounts(text: str, played: Played, probes: Probes) -> None:
    allow(text)
    played(slots=50)
    probes(2, limit_key=MODEL, uses={"tokens": 950, "usd": 0.011})
    assert leased() == 1
    assert any(said.startswith(REASONS[text]) for said in reasons()), reasons()


def test_work_that_an_edited_allowance_can_never_hold_says_so(played: Played, probes: Probes) -> None:
    probes(1, limit_key=MODEL, uses={"tokens": 950})
    allow("900 tokens/minute")
    played(slots=50)
    dispatch()
    assert reasons() == ["openai:gpt: uses 950 tokens, more than its allowance of 900 can ever hold"]


def reasons() -> list[str]:
    """Why what waits does, as far as the model's limit is concerned."""
    decision = admit(read_snapshot(database_now()))
    return [reason.text for each in decision.reasons.values() for reason in each if reason.limit == MODEL]


def test_routes_are_parked_until_the_period_ends_and_woken_by_what_is_given_back(
    played: Played, probes: Probes
) -> None:
    allow("1000 tokens/day")
    worker = played(slots=50)
    probes(2, limit_key=MODEL, uses={"tokens": 950})
    assert Route.objects.get(uses="tokens=950").parked_on == candidates.budget_of(MODEL)
    (grant,) = worker.begin_all()
    spend(grant, tokens=10)
    worker.end(grant, next_too=False)
    dispatch()
    assert leased() == 1


@pytest.mark.parametrize("amounts", [{"token": 1}, {"tokens": -1}, {"usd": float("nan")}, {"tokens": "many"}])
def test_a_step_that_spends_what_is_no_amount_is_told_so(
    amounts: dict[str, Any], played: Played, probes: Probes
) -> None:
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    with pytest.raises(BadInput):
        spend(grant, **amounts)
    worker.end(grant, next_too=False)


def test_requests_are_a_meter_that_a_step_may_not_exceed(played: Played, probes: Probes) -> None:
    allow("10 requests/day")
    worker = played(slots=9)
    probes(9, limit_key=MODEL, requests=4)
    grants = worker.begin_all()
    assert len(grants) == 2
    spend(grants[0], requests=4)
    with pytest.raises(StepFailed, match="would exceed what the step reserved"):
        spend(grants[0], requests=1)
    for grant in grants:
        worker.end(grant, next_too=False)
    assert AllowanceUsage.objects.get(limit=MODEL).spent == 8


def test_allowances_have_one_normal_form_and_their_edits_are_audited() -> None:
    allow("30000 tokens per minute;20 usd/day in Europe/Berlin")
    assert Limit.objects.get(name=MODEL).allowances == (
        "30,000 tokens/minute; 20.00 usd/day in Europe/Berlin"
    )


def test_a_call_that_ends_late_gives_back_nothing_that_time_has_refilled(
    played: Played, probes: Probes
) -> None:
    allow("6000 tokens/minute")
    worker = played(slots=50)
    probes(1, limit_key=MODEL, uses={"tokens": 6000}, prefix="long")
    (late,) = worker.begin_all()
    AllowanceClock.objects.update(clock=F("clock") - 60)
    probes(3, limit_key=MODEL, uses={"tokens": 3000}, prefix="next")
    assert len(worker.begin_all()) == 2
    spend(late, tokens=1)
    worker.end(late, next_too=False)
    dispatch()
    assert leased() == 2, "6,000 in this minute already"


def test_what_a_step_uses_of_a_meter_without_an_estimate_is_charged_to_rolling_allowances_too(
    played: Played, probes: Probes
) -> None:
    allow("6000 tokens/minute; 9000 tokens/day")
    worker = played(slots=1)
    probes(1, limit_key=MODEL)
    (grant,) = worker.begin_all()
    spend(grant, tokens=6000)
    worker.end(grant, next_too=False)
    probes(1, limit_key=MODEL, uses={"tokens": 950}, prefix="next")
    assert leased() == 0
    assert any("of 6,000 per minute, next in" in said for said in reasons())


@pytest.mark.parametrize("period", ["minute", "day"])
@pytest.mark.parametrize("limit", ["fleet", "phase:prep"])
def test_work_that_uses_none_of_an_exhausted_allowance_of_all_passes_what_waits_for_it(
    period: str, limit: str, played: Played, probes: Probes
) -> None:
    allow(f"1000 tokens/{period}", limit)
    worker = played(slots=1)
    for number in range(12):
        probes(1, limit_key=f"host:{number}", uses={"tokens": 950}, prefix=f"u{number}-")
    (grant,) = worker.begin_all()
    probes(1, limit_key="host:free", prefix="free")
    worker.end(grant, next_too=False)
    dispatch()
    assert [lease.limit_keys for lease in Lease.objects.all()] == ["host:free"]


def test_a_clock_left_by_a_machine_ahead_of_time_is_set_back(played: Played, probes: Probes) -> None:
    allow("1000 tokens/minute burst 100")
    name, now = f"{MODEL} tokens/minute", database_now().timestamp()
    AllowanceClock.objects.create(name=name, clock=now + 30 * 86_400)
    played(slots=1)
    probes(1, limit_key=MODEL, uses={"tokens": 95})
    assert leased() == 0
    assert AllowanceClock.objects.get().clock - now < 2 * 3600


@pytest.mark.parametrize("amount", [300, 3600])
def test_an_edit_of_a_rolling_amount_frees_nothing_of_what_is_used_and_makes_no_debt(
    amount: int, played: Played, probes: Probes
) -> None:
    """Of a booking, of what it gives back later, and of what is used beyond it."""
    allow("1200 tokens/hour burst 600")
    worker = played(slots=9)
    probes(1, limit_key=MODEL, uses={"tokens": 400}, prefix="less")
    probes(1, limit_key=MODEL, uses={"tokens": 200}, prefix="more")
    less, more = sorted(worker.begin_all(), key=lambda grant: grant.key)
    allow(f"{amount} tokens/hour burst 600")

    def used() -> float:
        clock, now = clock_at(f"{MODEL} tokens/hour"), database_now().timestamp()
        return (clock.at_pace(3600 / amount, now).clock - now) / (3600 / amount)

    assert used() == pytest.approx(600, abs=30)
    spend(less, tokens=100)
    worker.end(less, next_too=False)
    assert used() == pytest.approx(300, abs=30)
    spend(more, tokens=250)
    worker.end(more, next_too=False)
    assert used() == pytest.approx(350, abs=30)


def test_no_sum_of_what_steps_report_is_too_large_for_its_column(played: Played, probes: Probes) -> None:
    allow("5 tokens/day; 5 tokens/minute; 5 tokens in total")
    worker = played(slots=9)
    probes(5, limit_key=MODEL)
    for grant in worker.begin_all():
        for _ in range(400):
            spend(grant, tokens=MAX_AMOUNT)
        worker.end(grant, next_too=False)
    assert set(AllowanceUsage.objects.values_list("spent", flat=True)) == {MAX_AMOUNT}
    dispatch()
