"""Metrics: what the rows say, in labels that do not grow, by counters that only rise."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from celery.signals import worker_process_shutdown
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import HIGH, LOW, NORMAL, NewExecution
from queuemgr.flows.outcomes import Done, Failed
from queuemgr.lifecycle import anomalies, begin, finish, lock_holds, minute_stats
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.lifecycle.finish import Finish
from queuemgr.models import ANOMALY, Attempt, Execution, Lease, LimitState, MinuteStats
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.web.metrics import collector
from queuemgr.web.metrics.definitions import DECLARED
from queuemgr.worker import housekeeping, registration
from queuemgr.worker.current_worker import CurrentWorker, set_current_worker
from tests.integration.web.metrics.scraping import OPEN_METRICS, Scrape, scrape

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("static_root")]
Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]
ANN = Actor("ann", "admin")


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let so many seconds pass for whoever scrapes."""

    def at(seconds: float) -> None:
        monkeypatch.setattr(collector, "database_now", lambda: database_now() + timedelta(seconds=seconds))

    return at


def test_a_scrape_is_read_by_prometheus_in_both_formats(played: Played, probes: Probes) -> None:
    worker = played()
    probes(3)
    for grant in worker.begin_all():
        worker.end(grant)
    minute_stats.roll_up(database_now() + timedelta(minutes=2))
    plain, openly = scrape(), scrape(accept=OPEN_METRICS)
    assert openly.text.endswith("# EOF\n")
    for family in plain.families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        (declared,) = (metric for metric in DECLARED if metric.name == name)
        assert (family.type, family.documentation) == (declared.kind, declared.help)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(declared.labels)
    assert {family.name for family in plain.families} == {family.name for family in openly.families}


def test_depth_counts_every_priority_and_phase_exactly(make_worker: Any, sent: list[Any]) -> None:
    """Workers off, 30 high, 50 normal, 20 low in two phases."""
    for phase in ("prep", "wrap"):
        for rank, count in ((HIGH, 30), (NORMAL, 50), (LOW, 20)):
            keys = [NewExecution(f"{phase}{rank}-{n}", {"phase": phase}) for n in range(count)]
            enqueue_many("probe", keys, priority=rank)
    seen = scrape()
    for phase in ("prep", "wrap"):
        for name, count in (("high", 30), ("normal", 50), ("low", 20)):
            queue = f"{phase}.{name}"
            assert seen("sluicegate_queue_executions", queue=queue, state="waiting") == count
            assert seen("sluicegate_queue_due", queue=queue) == count
    assert seen.total("sluicegate_queue_executions") == 200


def test_depth_follows_work_from_waiting_to_its_end(played: Played, probes: Probes) -> None:
    """What is done is shown running nowhere."""
    worker = played(slots=2)
    probes(3)

    def depths() -> list[float]:
        seen = scrape()
        states = ("waiting", "leased", "running")
        return [
            *(seen.total("sluicegate_queue_executions", state=state) for state in states),
            seen("sluicegate_executions_ended", state="done"),
            seen("sluicegate_worker_slots_busy"),
        ]

    assert depths() == [1, 2, 0, 0, 0]
    one, other = worker.begin_all()
    assert depths() == [1, 0, 2, 0, 2]
    (third,) = worker.end(one)
    assert depths() == [0, 0, 2, 1, 2]
    worker.end(other)
    worker.end(third)
    assert depths() == [0, 0, 0, 3, 0]


def test_the_oldest_wait_is_that_of_due_work(probes: Probes) -> None:
    probes(1, phase="wrap")
    Execution.objects.update(run_after=database_now() - timedelta(seconds=100))
    probes(1, priority=HIGH, prefix="later")
    Execution.objects.filter(key__startswith="later").update(
        run_after=database_now() + timedelta(seconds=500)
    )
    seen = scrape()
    assert 100 <= seen("sluicegate_queue_oldest_wait_seconds", queue="wrap.normal") < 130
    assert seen("sluicegate_queue_oldest_wait_seconds", queue="prep.high") == 0
    assert seen("sluicegate_queue_executions", queue="prep.high", state="waiting") == 1
    assert seen("sluicegate_queue_due", queue="prep.high") == 0


def test_counters_count_starts_endings_and_requests_at_once(played: Played, probes: Probes) -> None:
    worker = played()
    probes(2)
    probes(1, priority=HIGH, prefix="h")
    grants = {grant.key: grant for grant in worker.begin_all()}
    worker.end(grants["p0"])
    worker.end(grants["p1"], Failed("network", "refused", cost=3))
    seen = scrape()
    assert seen("sluicegate_starts_total", phase="prep", priority="normal") == 2
    assert seen("sluicegate_starts_total", phase="prep", priority="high") == 1
    assert seen("sluicegate_starts_total", phase="wrap", priority="low") == 0
    labels = {"phase": "prep", "priority": "normal"}
    done = seen("sluicegate_attempts_total", **labels, outcome="done", error_kind="")
    retried = seen("sluicegate_attempts_total", **labels, outcome="retried", error_kind="network")
    assert (done, retried) == (1, 1)
    assert seen("sluicegate_requests_total", phase="prep") == 3


def _counters(seen: Scrape) -> dict[Any, float]:
    return {key: value for key, value in seen.samples.items() if key[0].endswith(("_total", "_bucket"))}


def test_counters_never_fall_while_minutes_are_rolled_up_and_attempts_and_minutes_pruned(
    played: Played, probes: Probes, configure: Callable[..., None], later: Callable[[float], None]
) -> None:
    worker = played()
    seen, began = [scrape()], database_now()
    for round_number in range(4):
        probes(3, prefix=f"t{round_number}-", uses={"usd": "0.2", "tokens": 1 + round_number})
        grants = worker.begin_all()
        seen.append(scrape())
        for grant in grants:
            worker.end(grant, next_too=False)
        seen.append(scrape())
        ended = minute_stats.whole_minute(began) - timedelta(minutes=9 - round_number)
        Attempt.objects.filter(execution__key__startswith=f"t{round_number}-").update(ended_at=ended)
        minute_stats.roll_up(began)
        seen.append(scrape())
    configure(keep_attempts_days=1e-9, keep_minutes_days=1)
    for hours in (0, 50):
        now = began + timedelta(hours=hours)
        housekeeping._prune_attempts(now)
        minute_stats.prune(now, rows=100)
        seen.append(scrape())
    assert Attempt.objects.count() == 9
    for before, after in pairwise(seen):
        now = _counters(after)
        assert all(now[key] >= value for key, value in _counters(before).items())
    assert seen[-1]("sluicegate_starts_total", phase="prep", priority="normal") == 12
    assert seen[-1]("sluicegate_usage_total", phase="prep", meter="usd") == 2.4
    assert seen[-1]("sluicegate_usage_total", phase="prep", meter="tokens") == 30


def test_amounts_of_a_minute_that_an_older_release_rolled_up_are_counted_once(
    played: Played, probes: Probes
) -> None:
    """Its row has no amounts, and no counter may fall once its attempts are not among the newest."""
    worker = played()
    probes(1, uses={"tokens": 7})
    worker.end(worker.begin_all()[0])
    Attempt.objects.update(
        ended_at=minute_stats.whole_minute(database_now() - minute_stats.GRACE) - timedelta(seconds=30)
    )
    minute_stats.roll_up(database_now())
    MinuteStats.objects.update(used=None)
    for _ in range(3):
        assert scrape()("sluicegate_usage_total", phase="prep", meter="tokens") == 7
        minute_stats.roll_up(database_now())
    assert MinuteStats.objects.all_time().attempts_only().get().used == {"tokens": 7}


def test_an_attempt_written_late_makes_no_counter_decrease(played: Played, probes: Probes) -> None:
    """It bears a minute that is rolled up already, and its lease is gone: it counts all the same."""
    worker = played()
    probes(2)
    one, other = worker.begin_all()
    worker.end(one, next_too=False)
    past = minute_stats.whole_minute(database_now() - minute_stats.GRACE) - timedelta(seconds=30)
    Attempt.objects.update(ended_at=past)
    minute_stats.roll_up(database_now())
    worker.end(other, next_too=False)
    Attempt.objects.update(ended_at=past)
    assert scrape().total("sluicegate_starts_total") == 2
    minute_stats.roll_up(database_now())
    assert scrape().total("sluicegate_starts_total") == 2


def test_counters_are_omitted_while_the_roll_up_is_far_behind(
    played: Played, probes: Probes, later: Callable[[float], None]
) -> None:
    """Rather than counting millions of attempts at each scrape, or falling."""
    worker = played()
    probes(1)
    worker.end(worker.begin_all()[0])
    later(3600)
    seen = scrape()
    assert seen("sluicegate_rollup_lag_seconds") > 3500
    assert not seen.has("sluicegate_starts_total")
    minute_stats.roll_up(database_now() + timedelta(minutes=2))
    seen = scrape()
    assert (seen("sluicegate_rollup_lag_seconds"), seen.total("sluicegate_starts_total")) == (0, 1)


def test_histograms_hold_every_attempt_rolled_up(played: Played, probes: Probes) -> None:
    worker = played()
    probes(4)
    for grant in worker.begin_all():
        worker.end(grant, next_too=False)
    minute_stats.roll_up(database_now() + timedelta(minutes=2))
    seen = scrape()
    assert seen("sluicegate_wait_seconds_bucket", phase="prep", priority="normal", le="+Inf") == 4
    assert seen("sluicegate_run_seconds_bucket", phase="prep", le="+Inf") == 4
    assert seen("sluicegate_run_seconds_bucket", phase="prep", le="86400.0") == 4


def test_second_deliveries_and_endings_after_the_lease_are_counted(played: Played, probes: Probes) -> None:
    worker = played()
    probes(1)
    (grant,) = worker.begin_all()
    assert begin.begin([grant.lease_id, uuid4()], worker.row.pk).grants == []
    worker.end(grant)
    worker.end(grant)
    probes(2, prefix="q")
    Lease.objects.update(expires_at=database_now() - timedelta(seconds=1))
    housekeeping.tick()
    seen = scrape()
    assert seen("sluicegate_messages_refused_total") == 2
    assert seen("sluicegate_outcomes_refused_total") == 1
    assert seen("sluicegate_leases_expired_unstarted_total") == 2
    assert seen.total("sluicegate_starts_total") == 1, "an anomaly is no start"
    assert MinuteStats.objects.by_minute().filter(outcome=ANOMALY).count() == 3
    assert minute_stats.rolled_up_to() is None


def test_lease_metrics_show_missed_renewals_and_expired_leases(played: Played, probes: Probes) -> None:
    worker = played()
    probes(3)
    worker.begin_all()
    ids = list(Lease.objects.values_list("pk", flat=True))
    now = database_now()
    Lease.objects.filter(pk=ids[0]).update(expires_at=now + timedelta(seconds=20))
    Lease.objects.filter(pk=ids[1]).update(expires_at=now - timedelta(seconds=5))
    seen = scrape()
    assert seen("sluicegate_leases_expiring_soon") == 2
    assert seen("sluicegate_leases_overdue") == 1
    assert 95 <= seen("sluicegate_lease_oldest_renewal_seconds") < 110
    assert seen("sluicegate_lease_seconds") == 90


def test_limits_show_usage_caps_reserve_budget_pauses_and_breakers(
    played: Played, probes: Probes, configure: Callable[..., None]
) -> None:
    configure(max_workers=10, high_priority_reserved=2, daily_budget=100)
    worker = played()
    probes(2, requests=5, limit_key="host:a.example:443")
    probes(1, priority=HIGH, prefix="h", limit_key="host:b.example:443")
    (*_, grant) = worker.begin_all()
    worker.end(grant, Done(cost=4), next_too=False)
    controls.pause("phase:wrap", ANN)
    controls.pause("wrap.low", ANN)
    soon = database_now() + timedelta(minutes=5)
    LimitState.objects.create(name="host:c.example:443", open_until=soon)
    LimitState.objects.create(name="host:d.example:443", half_open_starts=2)
    seen = scrape()
    assert seen("sluicegate_limit_max_running", limit="fleet") == 10
    assert seen("sluicegate_limit_reserved_high", limit="fleet") == 2
    assert seen("sluicegate_limit_running", limit="fleet") == 2
    assert seen("sluicegate_limit_running", limit="host:*") == 2
    assert seen("sluicegate_limit_budget_requests", limit="fleet") == 100
    spent = seen("sluicegate_limit_budget_spent_requests", limit="fleet")
    reserved = seen("sluicegate_limit_budget_reserved_requests", limit="fleet")
    assert spent + reserved == (9 if grant.key.startswith("p") else 14)
    assert seen("sluicegate_limit_paused", limit="phase:wrap") == 1
    assert seen("sluicegate_limit_paused", limit="fleet") == 0
    assert seen("sluicegate_queue_paused", queue="wrap.low") == 1
    assert seen("sluicegate_limit_breaker_open", limit="host:*") == 1
    assert seen("sluicegate_limit_breaker_half_open", limit="host:*") == 1


def test_allowances_of_limits_with_a_row_are_shown_in_the_units_of_their_meters(
    played: Played, probes: Probes
) -> None:
    controls.edit_limit("openai:gpt", ANN, allowances="0.50 usd/day; 9 tokens in total", new=True)
    controls.edit_limit("tenant:acme", ANN, allowances="1 usd/day")
    worker = played(slots=2)
    probes(2, limit_key="openai:gpt", tenant="acme", uses={"usd": 0.19})
    first, _ = worker.begin_all()
    worker.end(first, next_too=False)
    seen = scrape()
    usd = {"limit": "openai:gpt", "allowance": "usd/day"}
    assert seen("sluicegate_limit_allowance_amount", **usd) == 0.5
    assert seen("sluicegate_limit_allowance_used", **usd) == pytest.approx(0.19)
    assert seen("sluicegate_limit_allowance_reserved", **usd) == pytest.approx(0.19)
    assert seen("sluicegate_limit_allowance_used", limit="openai:gpt", allowance="tokens/total") == 0
    shown = {dict(labels).get("limit") for name, labels in seen.samples if "_allowance_" in name}
    assert shown == {"fleet", "openai:gpt"}, "not each tenant"


def test_a_refused_finish_in_a_batch_affects_no_other(played: Played, probes: Probes) -> None:
    worker = played()
    probes(2)
    one, other = worker.begin_all()
    finish.finish_batch([Finish(one.lease_id, Done()), Finish(uuid4(), Done())], None)
    worker.end(other)
    assert scrape()("sluicegate_outcomes_refused_total") == 1


def test_how_long_the_scheduler_lock_is_held_is_summed_over_processes_and_costs_no_statement_each(
    played: Played, probes: Probes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_holds, "STORE_SECONDS", 3600.0)  # longer than this takes on the busiest machine
    held = "sluicegate_scheduler_lock_hold_seconds"
    worker = played()
    probes(3)
    with CaptureQueriesContext(connection) as asked:
        for grant in worker.begin_all():
            worker.end(grant)
    assert not any("lock_hold" in str(query) for query in asked), "they are stored once a minute"
    lock_holds.write_sums()
    first = scrape()
    count = first(f"{held}_count")
    assert count >= 3
    assert 0 < first(f"{held}_sum") < 600
    assert first(f"{held}_bucket", le="+Inf") == count
    lock_holds.note(0.004)  # as another process counts them, and stores them later
    lock_holds.note(99)
    lock_holds.write_sums()
    lock_holds.write_sums()
    second = scrape()
    assert second(f"{held}_count") == count + 2
    assert second(f"{held}_bucket", le="0.005") == first(f"{held}_bucket", le="0.005") + 1
    assert second(f"{held}_bucket", le="30.0") == count + 1


def test_a_worker_that_stops_stores_what_it_has_counted(make_worker: Callable[..., Any]) -> None:
    worker = make_worker()
    set_current_worker(CurrentWorker(worker))
    registration.deregister(worker.pk)
    assert scrape()("sluicegate_scheduler_lock_hold_seconds_count") >= 1


def test_a_child_of_a_pool_stores_what_it_has_counted_as_it_ends(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_holds.note(0.25)
    registration._store_counts(pid=1, exitcode=0)
    assert scrape()("sluicegate_scheduler_lock_hold_seconds_sum") == 0.25
    assert registration._store_counts in worker_process_shutdown._live_receivers(None)
    monkeypatch.setattr(anomalies.sql, "run", Mock(side_effect=OperationalError("the database is away")))
    lock_holds.note(0.25)
    registration._store_counts(pid=1, exitcode=0)  # and ends all the same


def test_a_process_stores_what_it_has_counted_once_a_minute_and_keeps_what_it_cannot_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lock_holds, "STORE_SECONDS", -1.0)
    with monkeypatch.context() as patch:
        patch.setattr(anomalies.sql, "run", Mock(side_effect=OperationalError("the database is away")))
        with pytest.raises(OperationalError):
            lock_holds.note(0.25)
    lock_holds.note(0.25)
    assert scrape()("sluicegate_scheduler_lock_hold_seconds_sum") == 0.5
