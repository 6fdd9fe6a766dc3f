"""Positions, likely starts and ends, and forecasts, from what was measured."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import HIGH
from queuemgr.models import Attempt, Execution, Outcome, Route, State
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.reporting import explain, queue_position, stats, throughput
from queuemgr.scheduling import limit_rows
from tests.integration.cli.commands import queue
from tests.usage_rows import spend_requests

pytestmark = pytest.mark.django_db(transaction=True)
ANN = Actor("ann", "test")


@pytest.fixture(autouse=True)
def _limits_and_nothing_sent(transactional_db: None, sent: list[Any]) -> None:
    limit_rows.sync()


def position(key: str) -> tuple[int, bool]:
    """Its position, and whether that is a lower bound."""
    found = queue_position.estimate(Execution.objects.get(key=key), explain.reasons())
    assert found is not None
    return found.position, found.position_is_at_least


@pytest.fixture
def measured(probes: Any) -> Any:
    """Record attempts that ended evenly over the last minutes, ten seconds each."""

    def record(count: int, minutes: float, phase: str = "prep", cost: int = 0) -> None:
        (one,) = probes(1, prefix=f"measured-{phase}-")
        Execution.objects.filter(pk=one.pk).update(state=State.DONE, route=None, finished_at=database_now())
        now = database_now()
        Attempt.objects.bulk_create(
            _attempt(one, now - timedelta(minutes=minutes) * (n + 1) / count, phase, cost)
            for n in range(count)
        )

    return record


def _attempt(execution: Execution, started: datetime, phase: str, cost: int) -> Attempt:
    return Attempt(
        lease_id=uuid4(), execution=execution, phase=phase, step="probe", priority=1, cost=cost,
        due_at=started - timedelta(seconds=5), leased_at=started, started_at=started,
        ended_at=started + timedelta(seconds=10), outcome=Outcome.DONE,
    )  # fmt: skip


def test_of_one_route_the_oldest_is_first_and_work_of_other_queues_does_not_count(probes: Any) -> None:
    probes(3, priority=HIGH, prefix="high")
    probes(3, phase="wrap", prefix="wrap")
    probes(3)
    assert [position(f"p{n}")[0] for n in range(3)] == [1, 2, 3]
    assert position("p2") == (3, False)


def test_routes_take_turns_so_a_long_one_counts_no_more_than_a_turn_each(probes: Any) -> None:
    probes(9, prefix="a", limit_key="host:a")
    probes(3, prefix="b", limit_key="host:b")
    now = database_now()
    Route.objects.filter(limit_keys="host:a").update(served_at=now)
    Route.objects.filter(limit_keys="host:b").update(served_at=now - timedelta(minutes=1))
    assert [position(f"b{n}")[0] for n in range(3)] == [1, 3, 5]
    assert [position(f"a{n}")[0] for n in range(5)] == [2, 4, 6, 7, 8]


def test_resumed_work_is_before_new_work_and_what_is_parked_elsewhere_is_passed_over(probes: Any) -> None:
    probes(2, prefix="r", limit_key="host:r")
    probes(2, prefix="q", limit_key="host:q")
    probes(1)
    Route.objects.filter(limit_keys="host:r").update(resumed=True)
    Route.objects.filter(limit_keys="host:q").update(parked_on="host:q")
    Route.objects.filter(limit_keys="").update(served_at=database_now())
    assert position("p0") == (3, False)
    assert position("r0") == (1, False)


def test_beyond_what_is_counted_the_position_is_at_least_that(
    probes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_position, "MAX_OLDER", 3)
    probes(9)
    assert position("p1") == (2, False)
    assert position("p8") == (4, True)


def test_a_start_is_expected_by_the_speed_of_late_and_an_end_by_the_steps_left(
    played: Any, probes: Any, measured: Any
) -> None:
    measured(30, minutes=9.9)
    played(slots=1)
    probes(7)
    found = queue_position.estimate(Execution.objects.get(key="p6"), explain.reasons())
    assert found is not None and found.starts_at and found.finishes_at
    assert found.position == 6
    wait = (found.starts_at - database_now()).total_seconds()
    assert wait == pytest.approx(120, abs=15), "six, at three a minute"
    assert found.finishes_at - found.starts_at == timedelta(seconds=10)
    output = queue("why", "p6").lines
    assert "is busy" in output[0]
    assert output[1].startswith("position 6 in prep.normal, starts about ")
    assert ", done about " in output[1] and output[1].endswith("; 30 started in the last 10 minutes")
    (record,) = queue("why", "p6", "--json").records
    assert (record["position"], record["started_lately"], record["unknown"]) == (6, 30, "")
    assert record["reasons"][0]["kind"] == "workers"


def test_a_budget_moves_the_start_past_its_reset_and_says_when_that_is(
    played: Any, probes: Any, measured: Any
) -> None:
    controls.edit_limit("fleet", ANN, daily_budget=1)
    measured(30, minutes=9.9)
    played(slots=4)
    probes(3, requests=1)
    found = queue_position.estimate(Execution.objects.get(key="p2"), explain.reasons())
    assert found is not None and found.starts_at and found.can_change_at
    assert found.starts_at > found.can_change_at > database_now()
    assert queue("why", "p2").lines[2].startswith("next decision at ")


def test_with_nothing_measured_no_time_is_made_up(played: Any, probes: Any) -> None:
    played(slots=1)
    probes(2)
    output = queue("why", "p1").lines
    assert output[1] == (
        "position 1 in prep.normal; no start to expect: nothing started in prep.normal in the last hour"
    )
    (record,) = queue("why", "p1", "--json").records
    assert (record["starts_at"], record["finishes_at"]) == (None, None)


def test_where_no_worker_serves_the_queue_no_start_is_expected(probes: Any, measured: Any) -> None:
    measured(30, minutes=9.9)
    probes(1)
    assert queue("why", "p0").lines[1] == (
        "position 1 in prep.normal; no start to expect: no live worker consumes prep.normal"
    )


def test_what_does_not_wait_has_no_position(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    probes(1)
    worker.begin_all()
    assert len(queue("why", "p0").lines) == 1
    (record,) = queue("why", "p0", "--json").records
    assert (record["position"], record["reasons"]) == (None, [])


def test_the_window_begins_with_the_first_start_when_work_began_within_it(measured: Any) -> None:
    measured(5, minutes=5)
    found = throughput.starts("prep", 1, database_now())
    assert (found.count, round(found.seconds / 60)) == (5, 5)
    assert str(found) == "5 started in the last 5 minutes"


def test_a_forecast_says_when_a_budget_ends_and_when_a_phase_is_done(probes: Any, measured: Any) -> None:
    zone = "UTC" if database_now().hour < 20 else "Etc/GMT-12"
    controls.edit_limit("fleet", ANN, daily_budget=250, reserved_for_high_percent=0, budget_zone=zone)
    measured(30, minutes=30, cost=2)
    for days in (-1, 0, 1):
        spend_requests("fleet", 240, days=days, zone=zone)
    probes(4, requests=3)
    found = stats.stats()["forecast"]
    assert found["measured_seconds"] == pytest.approx(1790, abs=10)
    (budget,) = found["budgets"]
    assert (budget["limit"], budget["left"]) == ("fleet", 10)
    assert budget["per_hour"] == pytest.approx(120, rel=0.05)
    ends = budget["ends_at"] - database_now()
    assert ends.total_seconds() == pytest.approx(300, rel=0.1)
    (phase,) = found["phases"]
    assert (phase["phase"], phase["unfinished"]) == ("prep", 4)
    assert phase["done_at"] is not None
    output = queue("stats").out
    assert "fleet budget spent" in output and "prep done" in output


def test_a_forecast_of_nothing_measured_says_so(probes: Any) -> None:
    probes(1)
    found = stats.stats()["forecast"]
    assert found["budgets"][0]["because"] == "nothing that would use it waits"
    assert found["phases"][0]["because"] == "nothing went through it in the last hour"


def test_an_allowance_is_forecast_from_what_waits_and_what_was_used_lately(
    probes: Any, measured: Any
) -> None:
    controls.edit_limit("openai:gpt", ANN, new=True, allowances="5,000 tokens in total; 5 usd/day")
    measured(30, minutes=30)
    Attempt.objects.update(limit_keys="openai:gpt", uses="tokens=100")
    probes(2, limit_key="openai:gpt", uses={"tokens": 2000})
    probes(3, limit_key="openai:gpt", uses={"tokens": 1500}, priority=0, prefix="h")
    found = stats.limit("openai:gpt")
    assert found is not None
    total, day = (each["forecast"] for each in found["allowances"])
    assert total["per_hour"] == pytest.approx(6_000, rel=0.05)
    assert total["waiting"] == 8_500
    runs_out = (total["runs_out_at"] - database_now()).total_seconds()
    assert runs_out == pytest.approx(3000, rel=0.05), "5,000 are left"
    assert total["done_at"] is None and total["text"].startswith("tokens 8,500 wait for it, 6,0")
    assert (day["waiting"], day["text"], day["because"]) == (0, "", "nothing that would use it waits")
    shown = queue("limit", "openai:gpt").out
    assert "tokens 8,500 wait for it" in shown and "begins anew" in shown
