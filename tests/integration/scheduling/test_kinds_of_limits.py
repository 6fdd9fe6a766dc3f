"""Every kind of limit, in rows: rates, several keys, tokens, breakers, budgets, fair shares, full queues."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, timedelta
from typing import Any

import pytest

from queuemgr.base.errors import NeverFits, QueueFull
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import HIGH, LOW, NewExecution
from queuemgr.flows.outcomes import Failed
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue, enqueue_many
from queuemgr.models import (
    Attempt,
    DailyUsage,
    Execution,
    Lease,
    Limit,
    LimitState,
    Outcome,
    Queue,
    Route,
    State,
)
from queuemgr.operations import controls, executions
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import breakers, candidates, decision_input, limit_rows, snapshot, wakeups
from tests.integration.conftest import let_time_pass, rule_of

pytestmark = pytest.mark.django_db(transaction=True)
Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]
ANN = Actor("ann", "test", "because")


@pytest.fixture(autouse=True)
def _rows_of_limits(transactional_db: None) -> None:
    limit_rows.sync()


def leased() -> int:
    return Lease.objects.count()


def pass_time(name: str, seconds: float) -> None:
    """Set a rate's clock back, as if so much time had passed."""
    state = LimitState.objects.get(name=name)
    LimitState.objects.filter(pk=state.pk).update(rate_clock=state.rate_clock - seconds)
    wakeups.post(limits=[name])
    dispatch()


def test_a_rate_allows_one_start_and_the_next_an_interval_later(played: Played, probes: Probes) -> None:
    """P4-: the clock moves on when a start begins, not when it is granted, so a late message
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
    LimitState.objects.create(name="host:a", rate_clock=database_now().timestamp() + ahead)
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
    clock = LimitState.objects.get(name="host:a").rate_clock
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


def test_a_start_must_pass_each_of_several_keys(played: Played, probes: Probes) -> None:
    controls.edit_limit("tenant:acme", ANN, max_running=1)
    played(slots=9)
    probes(3, limit_key="host:a", tenant="acme", prefix="a")
    probes(3, limit_key="host:a", tenant="emca", prefix="b")
    running = sorted(Lease.objects.values_list("limit_keys", flat=True))
    assert running == ["host:a tenant:acme"] + ["host:a tenant:emca"] * 3
    assert rule_of("host:a").max_running == 4


def test_tokens_are_counted_by_their_own_weights(played: Played, probes: Probes) -> None:
    controls.edit_limit("cpu", ANN, max_running=4)
    worker = played(slots=9)
    probes(9, tokens={"cpu": 2}, prefix="big")
    assert leased() == 2
    probes(9, prefix="free")
    assert leased() == 9, "work without tokens still starts"
    (first, *_) = [g for g in worker.begin_all() if g.key.startswith("big")]
    worker.end(first)
    assert Lease.objects.filter(tokens="cpu=2").count() == 2


def test_without_the_scheduler_tokens_do_not_bind_and_plain_caps_do(
    played: Played, probes: Probes, configure: Callable[..., None]
) -> None:
    configure(scheduler=False, cpu_tokens=1, max_prep=5)
    limit_rows.sync()
    played(slots=9)
    probes(9, tokens={"cpu": 1})
    assert leased() == 5


def test_low_resource_mode_gives_a_small_machine_few_tokens(configure: Callable[..., None]) -> None:
    configure(low_resource=True, io_tokens=7)
    limit_rows.sync()
    assert [rule_of(name).max_running for name in ("cpu", "io", "memory")] == [1, 7, 2]


def test_a_retry_after_throttles_the_limit_for_the_whole_fleet_and_then_it_half_opens(
    played: Played, probes: Probes
) -> None:
    """The wait is nobody's slot, and no worker asks the service before it is over."""
    worker = played(slots=8)
    probes(12, limit_key="host:a", prefix="a")
    first, *rest = worker.begin_all()
    worker.end(first, Failed("rate_limited", "429", retry_after=60))
    state = LimitState.objects.get(name="host:a")
    assert state.open_until is not None
    wait = state.open_until - database_now()
    assert timedelta(seconds=58) < wait < timedelta(seconds=67), "jitter is only ever added"
    for grant in rest:
        worker.end(grant)
    assert leased() == 0
    probes(2, limit_key="host:b", prefix="b")
    assert leased() == 2, "other limits still start work"
    Lease.objects.filter(limit_keys="host:b").delete()
    LimitState.objects.update(open_until=database_now())
    wakeups.post(limits=["host:a"])
    dispatch()
    for expected in (1, 2, 4):
        assert Lease.objects.filter(limit_keys="host:a").count() == expected
        for grant in worker.begin_all():
            worker.end(grant, next_too=False)


def test_failures_to_reach_a_service_open_its_breaker_and_an_answer_closes_it(
    played: Played, probes: Probes
) -> None:
    controls.edit_limit("host:*", ANN, breaker_after=3, max_running=1)
    worker = played(slots=1)
    probes(9, limit_key="host:a")
    for _ in range(2):
        worker.end(*worker.begin_all() or Lease.objects.none(), Failed("network", "refused"), next_too=False)
        dispatch()
    assert not LimitState.objects.get(name="host:a").open_until
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("not_found", "404: an answer"), next_too=False)
    assert LimitState.objects.get(name="host:a").failures == 0
    for _ in range(3):
        dispatch()
        (grant,) = worker.begin_all()
        worker.end(grant, Failed("timeout", "slow"), next_too=False)
    state = LimitState.objects.get(name="host:a")
    assert state.open_until is not None and state.open_reason == "3 x timeout in a row"
    dispatch()
    assert leased() == 0


def test_a_used_up_quota_opens_the_breaker_until_the_day_ends(played: Played, probes: Probes) -> None:
    """One request learns it; the others wait, and their reason says why."""
    worker = played(slots=1)
    probes(5, limit_key="llm:chat")
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("quota", "insufficient_quota"))
    assert leased() == 0
    assert Execution.objects.waiting().count() == 4
    state = LimitState.objects.get(name="llm:chat")
    assert state.open_until is not None and state.open_until.hour == 0


def test_a_person_can_reset_an_open_breaker(played: Played, probes: Probes) -> None:
    played(slots=1)
    breakers.open_breaker("host:a", database_now() + timedelta(hours=1), "429")
    probes(1, limit_key="host:a")
    assert leased() == 0
    controls.resume("host:a", ANN)
    assert leased() == 1


def test_a_failing_service_does_not_open_the_breaker_of_the_tenant(played: Played, probes: Probes) -> None:
    worker = played(slots=1)
    probes(1, limit_key="host:a", tenant="acme")
    worker.end(worker.begin_all()[0], Failed("rate_limited", "429", retry_after=60))
    assert list(LimitState.objects.filter(open_until__isnull=False).values_list("name", flat=True)) == [
        "host:a"
    ]


def test_a_budgets_day_is_kept_in_its_own_zone(played: Played, probes: Probes) -> None:
    zone = "Pacific/Kiritimati"  # 14 hours ahead: its day is seldom the day of UTC
    controls.edit_limit("tenant:acme", ANN, daily_budget=2, budget_zone=zone)
    worker = played(slots=9)
    probes(5, tenant="acme", requests=1)
    grants = worker.begin_all()
    assert len(grants) == 2
    for grant in grants:
        worker.end(grant)
    from queuemgr.base.budget_day import day_of

    usage = DailyUsage.objects.get(limit="tenant:acme")
    assert (usage.day, usage.spent) == (day_of(database_now(), zone), 2)
    assert DailyUsage.objects.get(limit="fleet").day == database_now().astimezone(UTC).date()
    assert leased() == 0
    DailyUsage.objects.update(day=date(2020, 1, 1))
    wakeups.post(limits=[candidates.budget_of("tenant:acme")])
    dispatch()
    assert leased() == 2, "another day, another budget"


def test_the_last_tenth_of_a_budget_is_reserved_for_high_priority(
    played: Played, probes: Probes, configure: Callable[..., None]
) -> None:
    configure(daily_budget=100)
    limit_rows.sync()
    worker = played(slots=50)
    probes(4, requests=30, prefix="normal")
    probes(1, requests=10, priority=HIGH, prefix="high")
    assert Lease.objects.filter(execution__key__startswith="normal").count() == 3
    assert Lease.objects.filter(execution__key__startswith="high").count() == 1
    assert worker.begin_all()


def test_work_no_limit_could_ever_admit_is_refused_naming_the_limit(probes: Probes) -> None:
    controls.edit_limit("memory", ANN, max_running=4)
    with pytest.raises(NeverFits, match="weight 5 is above max_running=4 of limit 'memory'"):
        enqueue("probe", "x", {"tokens": {"memory": 5}})
    controls.edit_limit("tenant:acme", ANN, daily_budget=200)
    with pytest.raises(NeverFits, match="of which 20 are reserved for higher priority"):
        enqueue("probe", "x", {"tenant": "acme", "requests": 190})
    assert not Execution.objects.exists()


def test_a_full_queue_refuses_new_work_and_says_how_many_were_enqueued(probes: Probes) -> None:
    controls_queue = Queue.objects.filter(name="prep.low")
    limit_rows.sync()
    controls_queue.update(max_pending=3)
    many = [NewExecution(f"k{n}", {}) for n in range(5)]
    with pytest.raises(
        QueueFull, match=r"queue prep.low is full: 3 wait, its max_pending is 3; 3 were enqueued before"
    ):
        enqueue_many("probe", many, priority=LOW)
    assert Execution.objects.count() == 3
    again = enqueue_many("probe", many[:3], priority=LOW)
    assert (again.new, again.already) == (0, 3), "what is there already is no new work"
    assert enqueue_many("probe", many[3:]).new == 2, "other queues have room"


@pytest.mark.only_on("postgres", why="needs a server's connections")
def test_concurrent_enqueues_do_not_exceed_max_pending_together(
    probes: Probes, in_threads: Callable[..., list[Any]]
) -> None:
    limit_rows.sync()
    Queue.objects.filter(name="prep.low").update(max_pending=10)

    def enqueue_some(number: int) -> int:
        try:
            return enqueue_many(
                "probe", [NewExecution(f"t{number}-{n}", {}) for n in range(6)], priority=LOW
            ).new
        except QueueFull as full:
            return full.new

    assert sum(in_threads(4, enqueue_some)) == 10
    assert Execution.objects.count() == 10


def test_tenants_are_served_by_their_shares_however_many_keys_each_has(
    played: Played, probes: Probes
) -> None:
    controls.edit_limit("tenant:big", ANN, share=3)
    worker = played(slots=1)
    for host in range(6):
        probes(10, limit_key=f"host:{host}", tenant="big", prefix=f"big{host}-")
    probes(10, limit_key="host:x", tenant="small", prefix="small")
    order = []
    (grant,) = worker.begin_all()
    for _ in range(16):
        order.append(grant.key[:3])
        (grant,) = worker.end(grant)
    assert order.count("big") in (11, 12, 13)


def test_retries_are_limited_to_a_percentage_of_starts(
    played: Played, probes: Probes, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_input, "RETRIES_ALWAYS_ALLOWED", 2)
    configure(retry_percent=10)
    worker = played(slots=20)
    probes(10)
    for grant in worker.begin_all():
        worker.end(grant, Failed("network", "refused"), next_too=False)
    let_time_pass(Execution.objects.waiting())
    dispatch()
    assert Lease.objects.filter(retrying=True).count() == 2
    waiting = Route.objects.get(parked_on="retries")
    assert waiting.retrying and waiting.parked_until is not None
    for grant in worker.begin_all():
        worker.end(grant, next_too=False)
    assert Attempt.objects.filter(retrying=True, outcome=Outcome.DONE).count() == 2
    dispatch()
    assert leased() == 0


def test_a_parked_route_is_unparked_by_whatever_allows_it_to_start(played: Played, probes: Probes) -> None:
    worker = played(slots=9)
    probes(6, limit_key="host:a")
    dispatch()
    assert Route.objects.get().parked_on == "host:a"
    first, *_ = worker.begin_all()
    assert len(worker.end(first)) == 1, "the end of a lease under it"
    controls.edit_limit("host:a", ANN, max_running=5)
    assert leased() == 5, "a raised cap"
    executions.cancel(Execution.objects.waiting(), ANN)
    for grant in worker.begin_all():
        worker.end(grant)
    assert Execution.objects.filter(state=State.DONE).count() >= 1


def test_an_edited_retry_policy_holds_for_the_next_failure_of_its_phase(
    played: Played, probes: Probes
) -> None:
    limit_rows.sync()
    worker = played(slots=1)
    probes(1)
    controls.edit_policy("network", "prep", ANN, max_attempts=2, base=0, ceiling=0, jitter=0)
    for expected in (State.LEASED, State.FAILED):
        (grant,) = worker.begin_all()
        worker.end(grant, Failed("network", "refused"), next_too=False)
        assert Execution.objects.get().state == expected


def test_the_services_papers_come_from_have_default_rates() -> None:
    limit_rows.sync()
    rows = {limit.name: limit for limit in Limit.objects.exclude(rate="")}
    assert rows["resolver:arxiv"].rate == "1/3s"
    assert {"resolver:crossref", "resolver:openalex", "resolver:unpaywall"} <= rows.keys()
    assert "resolver:semanticscholar" in rows


def test_the_depth_of_a_queue_is_counted_no_further_than_its_cap(probes: Probes) -> None:
    probes(5, priority=LOW)
    Queue.objects.filter(name="prep.low").update(max_pending=3)
    with pytest.raises(QueueFull) as full:
        enqueue("probe", "one more", priority=LOW)
    assert full.value.depth == 3


def test_a_limit_edited_before_any_worker_registered_keeps_the_edit(configure: Callable[..., None]) -> None:
    Limit.objects.all().delete()
    configure(max_prep=7)
    controls.edit_limit("phase:prep", ANN, max_running=2)
    limit_rows.sync()
    assert rule_of("phase:prep").max_running == 2


def test_an_unavailable_database_is_not_reported_as_an_error_of_the_step() -> None:
    from django.db import OperationalError

    from queuemgr.flows.abort_signal import AbortSignal
    from queuemgr.worker.application_code import as_result

    failed = as_result(OperationalError("terminating connection"), AbortSignal())
    assert isinstance(failed, Failed)
    assert failed.kind == "storage"
