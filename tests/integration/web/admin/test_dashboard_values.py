"""Every number on the dashboard, against a fleet made by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from queuemgr.base import process_state
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.unreachable import Problem
from queuemgr.flows.flow import HIGH, LOW, NewExecution
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import (
    AllowanceClock,
    AllowanceUsage,
    Attempt,
    BulkAction,
    Execution,
    Lease,
    Limit,
    LimitState,
    State,
    Worker,
)
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.reporting import dashboard
from queuemgr.reporting.dashboard import Dashboard
from queuemgr.reporting.dashboard.limit_bars import NOT_DUE, LimitBar
from queuemgr.reporting.dashboard.phase_table import QueueCell
from queuemgr.scheduling import limit_rows
from tests.integration.web.admin.dashboard_fleet import (
    HOST,
    a_failed,
    a_fleet,
    a_minute,
    an_ended,
    enqueue,
    waited,
)
from tests.usage_rows import spend_requests

pytestmark = pytest.mark.django_db

SAM = Actor("sam", "command", "the disk is full")


@pytest.fixture(autouse=True)
def _new(sent: list[Any]) -> None:
    limit_rows.sync()
    process_state.reset_all()


@pytest.fixture
def fleet(make_worker: Callable[..., Worker]) -> Worker:
    return a_fleet(make_worker)


def read() -> Dashboard:
    process_state.reset_all()
    return dashboard.read()


def cell(phase: str, priority: str) -> QueueCell:
    row = next(row for row in read().phases if row.phase == phase)
    return next(cell for cell in row.cells if cell.priority == priority)


def bar(name: str) -> LimitBar:
    return next(bar for bar in read().limits.shown if bar.name == name)


def check(name: str) -> Any:
    return next(check for check in read().checks if check.name == name)


def test_each_queue_shows_how_much_waits_is_leased_and_runs(fleet: Worker) -> None:
    """By phase and priority, and the sums of all."""
    prep, paid = cell("prep", "normal"), cell("expensive", "normal")
    assert (prep.waiting, prep.running, prep.unstarted) == (3, 3, 1)
    assert (paid.waiting, paid.running, paid.unstarted) == (2, 1, 0)
    found = read()
    assert (found.waiting, found.running, found.unstarted) == (5, 4, 1)


def test_work_without_a_consumer_is_counted_by_phase_and_priority() -> None:
    """Workers off; 30 high, 50 normal and 20 low in two phases."""
    for phase in ("prep", "expensive"):
        for count, priority in ((15, HIGH), (25, 1), (10, LOW)):
            enqueue(count, f"{phase}{priority}:", priority, phase=phase)
    rows = {row.phase: [cell.waiting for cell in row.cells] for row in read().phases}
    assert rows == {"prep": [15, 25, 10], "expensive": [15, 25, 10], "wrap": [0, 0, 0]}
    assert read().waiting == 100


def test_the_oldest_wait_is_compared_with_the_starvation_time(configure: Callable[..., None]) -> None:
    configure(starvation_seconds=3_600)
    for number, priority in enumerate((HIGH, 1, LOW)):
        enqueue(2, f"q{number}:", priority)
    waited(30)
    assert cell("prep", "high").aged_after is None
    normal, low = cell("prep", "normal"), cell("prep", "low")
    assert (normal.aged_after, low.aged_after) == (timedelta(hours=1), timedelta(hours=2))
    assert normal.oldest is not None
    assert timedelta(minutes=30) <= normal.oldest < timedelta(minutes=32)
    assert 0.5 <= (normal.share_waited or 0) < 0.54
    assert not normal.is_overdue
    waited(61)
    assert cell("prep", "normal").is_overdue
    assert not cell("prep", "low").is_overdue


def test_work_that_is_not_due_waits_but_is_not_old() -> None:
    enqueue(2, "later")
    waited(-30)
    found = read()
    assert (found.waiting, found.oldest) == (2, None)
    later = next(why for why in found.wait_reasons.shown if why.kind == "run_after")
    assert (later.text, later.waiting) == (NOT_DUE, 2)
    assert later.until is not None and later.until > found.at


def test_a_limit_shows_its_use_its_cap_its_reserve_and_what_waits_on_it(fleet: Worker) -> None:
    assert (bar("fleet").use.running, bar("fleet").rule.max_running) == (5, 6)
    assert bar("fleet").reserve_share == pytest.approx(1 / 6)
    assert bar("phase:prep").fullness == 1.0
    assert bar("phase:prep").waiting == 3
    assert bar("phase:expensive").waiting == 2
    assert bar(HOST).use.running == 4
    assert bar(HOST).defined_by == "host:*"
    (budget,) = (note for note in bar("fleet").notes if "requests" in note.text)
    assert budget.level == "quiet"
    assert budget.text.startswith("requests 30 and 10 reserved of 100 per day, resets ")


def test_a_cap_lowered_while_busy_shows_how_far_it_is_over(fleet: Worker) -> None:
    """No number of free slots is negative or hidden."""
    Limit.objects.filter(name="phase:prep").update(max_running=3)
    assert (bar("phase:prep").over, bar("phase:prep").fullness) == (1, 1.0)
    assert "phase:prep is over its cap by 1 and drains" in texts()


def test_a_limit_says_until_when_its_breaker_is_open_and_when_it_is_half_open(fleet: Worker) -> None:
    until = database_now() + timedelta(minutes=5)
    LimitState.objects.create(name=HOST, open_until=until, open_reason="429 <b>")
    assert bar(HOST).open_until == until
    assert any(text.endswith("UTC: 429 <b>") for _, text in bar(HOST).notes)
    assert any(text.startswith(f"{HOST} breaker open until") for text in texts())
    LimitState.objects.update(open_until=None, half_open_starts=2)
    assert ("warn", "breaker half-open after 429 <b>: 2 at a time") in bar(HOST).notes


def test_a_rate_shows_when_it_lets_the_next_start_through() -> None:
    Limit.objects.create(name=HOST, rate="1/3s")
    ahead = database_now() + timedelta(seconds=3)
    AllowanceClock.objects.create(name=f"{HOST} starts", clock=ahead.timestamp())
    found = bar(HOST)
    assert found.rate == "20/min"
    assert found.next_start is not None
    assert abs(found.next_start - ahead) < timedelta(seconds=1)


def test_the_busiest_limits_are_shown_and_the_others_counted() -> None:
    for number in range(20):
        Limit.objects.create(name=f"host:{number}.example:443", max_running=3)
    enqueue(2, "w", limit_key="host:7.example:443")
    LimitState.objects.create(
        name="host:9.example:443", open_until=database_now() + timedelta(hours=1), open_reason="x"
    )
    shown = [bar.name for bar in read().limits.shown]
    assert shown[:4] == ["fleet", "phase:prep", "phase:expensive", "phase:wrap"]
    assert shown[4] == "host:9.example:443"
    assert len(shown) == 4 + 12
    assert read().limits.others >= 8


def test_reasons_for_waiting_are_listed_by_how_much_work_they_hold(fleet: Worker) -> None:
    whys = {why.text: why.waiting for why in read().wait_reasons.shown}
    assert whys["phase:prep 4/4"] == 3
    assert whys["phase:expensive 1/1"] == 2
    assert [why.waiting for why in read().wait_reasons.shown] == sorted(whys.values(), reverse=True)


def test_workers_show_busy_slots_lanes_and_whether_they_are_alive(
    fleet: Worker, make_worker: Callable[..., Worker]
) -> None:
    now = database_now()
    gone = make_worker(name="gone@test", queues=["wrap.high", "wrap.low"], slots=2)
    left = make_worker(name="left@test", slots=2)
    Worker.objects.filter(pk__in=(gone.pk, left.pk)).update(seen_at=now - timedelta(minutes=5))
    Worker.objects.filter(pk=left.pk).update(draining_at=now - timedelta(minutes=5))
    found = read().workers
    rows = {
        row.worker.name: (row.condition, row.busy, row.worker.slots, row.queues_text) for row in found.shown
    }
    assert rows == {
        "w@test": ("live", 4, 8, "expensive, prep, wrap"),
        "gone@test": ("gone", 0, 2, "wrap.high, wrap.low"),
        "left@test": ("left", 0, 2, "expensive, prep, wrap"),
    }
    assert (found.live, found.slots, found.busy, found.gone) == (1, 8, 4, 1)
    assert found.shown[0].worker.name == "gone@test"
    assert "1 worker gives no heartbeat" in texts()


def test_the_last_hour_day_and_week_come_from_rolled_up_minutes() -> None:
    a_minute(timedelta(minutes=5), attempts=3, waits=4.0, runs=0.2)
    a_minute(timedelta(minutes=6), attempts=1, outcome="failed", error_kind="timeout")
    a_minute(timedelta(minutes=7), attempts=9, outcome="snoozed")
    a_minute(timedelta(hours=3), attempts=20, waits=100.0, runs=50.0, phase="wrap", priority=HIGH)
    a_minute(timedelta(days=3), attempts=40, outcome="retried", error_kind="timeout")
    a_minute(timedelta(days=8), attempts=1000)
    hour, day, week = read().windows
    assert (hour.speeds["all"].done, hour.speeds["all"].failed, hour.speeds["all"].tries) == (3, 1, 4)
    assert (day.speeds["all"].done, day.speeds["high"].done, day.speeds["wrap"].done) == (23, 20, 20)
    assert (week.speeds["all"].tries, week.speeds["all"].again) == (64, 40)
    waits, runs = hour.speeds["prep"].waited[0], day.speeds["wrap"].ran[1]
    assert waits is not None and 2.5 < waits <= 5.0, "the bucket 4 s lie in"
    assert runs is not None and 30.0 < runs <= 60.0
    assert hour.speeds["wrap"].waited == (None, None)
    for window in (hour, day, week):
        assert sum(bar.done for bar in window.bars) == window.speeds["all"].done
        assert sum(bar.failed for bar in window.bars) == window.speeds["all"].failed


def test_the_budget_shows_what_is_spent_reserved_and_left(fleet: Worker) -> None:
    found = read().budgets
    budget = found.fleet
    assert budget is not None
    assert (budget.spent, budget.reserved, budget.left) == (30, 10, 60)
    assert budget.because == "enough for all that waits"
    assert found.spent_by_phase == {"prep": 0, "expensive": 30, "wrap": 0}
    assert found.line is not None
    assert found.line.past[-1].left == found.line.ahead[0].left == 70
    assert found.line.ahead[-1].at == budget.resets_at


def test_a_budget_counts_what_was_spent_where_nothing_runs_or_waits() -> None:
    Limit.objects.create(name="tenant:acme", daily_budget=50)
    spend_requests("tenant:acme", 50)
    row = next(row for row in read().allowances.shown if row.limit == "tenant:acme")
    assert (row.status.used, row.status.is_spent, row.share_used) == (50, True, 1.0)
    assert any(text.startswith("The allowance requests/day of tenant:acme is used up") for text in texts())


def test_an_allowance_that_what_waits_will_use_up_is_an_alarm(probes: Any) -> None:
    Limit.objects.create(name="openai:gpt", allowances="9 tokens in total; 90 tokens/day")
    probes(4, limit_key="openai:gpt", uses={"tokens": 5})
    assert not [text for text in texts() if "allowance" in text], "nothing says when"
    now = database_now()
    Attempt.objects.create(
        lease_id=uuid4(), execution=Execution.objects.first(), phase="prep", step="probe", priority=1,
        cost=0, uses="tokens=1", limit_keys="openai:gpt", leased_at=now, started_at=now, ended_at=now,
        outcome="done",
    )  # fmt: skip
    (alarm,) = [text for text in texts() if "allowance" in text]
    assert alarm.startswith("The allowance tokens/total of openai:gpt will run out about")
    assert alarm.endswith("20 wait for it, 9 are left")


def test_a_limit_shows_its_allowances_and_warns_when_nothing_is_left_of_one() -> None:
    Limit.objects.create(name="openai:gpt", allowances="9 tokens in total; 5 tokens/minute")
    (total, minute) = bar("openai:gpt").notes
    assert (total, minute) == (("quiet", "tokens 0 of 9 in total"), ("quiet", "tokens 0 of 5 per minute"))
    starts = datetime(1970, 1, 1, tzinfo=UTC)
    AllowanceUsage.objects.create(limit="openai:gpt", allowance="tokens/total", starts_at=starts, spent=10)
    assert ("warn", "tokens 10 of 9 in total, 1 too much") in bar("openai:gpt").notes


def test_failures_are_grouped_by_kind_with_counts() -> None:
    for number in range(3):
        a_failed(f"f{number}")
    a_failed("g", "timeout", "no answer")
    groups = [(group.kind, group.count) for group in read().failures]
    assert groups == [("not_pdf", 3), ("timeout", 1)]
    assert read().counted.failed == 4


def test_bulk_actions_under_way_show_how_far_they_have_come() -> None:
    BulkAction.objects.create(
        verb="retry", state="running", actor="sam", source="admin", matched=10, up_to=99,
        changed=3, skipped=1, failed=1,
    )  # fmt: skip
    BulkAction.objects.create(verb="cancel", state="done", actor="sam", source="admin", matched=1, up_to=9)
    (action,) = read().actions
    assert (action.passed, action.matched, action.failed, action.share) == (5, 10, 1, 0.5)


def test_the_numbers_add_up(fleet: Worker) -> None:
    an_ended("old")
    a_failed("dead")
    found = read()
    assert all(check.is_right for check in found.checks)
    assert [alarm.text for alarm in found.alarms] == ["1 failed, retained until a person decides"]
    assert (found.counted.waiting, found.counted.held, found.counted.ended) == (5, 5, 2)
    assert found.counted.by_state.total() == Execution.objects.count()
    assert check("Slots").parts == (("prep", 4), ("expensive", 1), ("wrap", 0))
    assert check("Requests today").whole == ("the fleet's", 30)


@pytest.mark.parametrize(
    ("broken", "name", "difference"),
    [
        (lambda: Lease.objects.filter(phase="prep")[0].delete(), "Executions", -1),
        (lambda: Lease.objects.filter(phase="prep")[0].delete(), "Leases", -1),
        (lambda: AllowanceUsage.objects.filter(limit="fleet").update(spent=29), "Requests today", 1),
    ],
)
def test_a_sum_that_does_not_add_up_names_the_difference(
    fleet: Worker, broken: Callable[[], Any], name: str, difference: int
) -> None:
    broken()
    assert check(name).difference == difference
    text = f"The numbers do not add up: {name.lower()} are off by {difference:+,}"
    assert text in texts()


def test_slots_of_a_phase_no_flow_knows_any_more_are_shown_and_counted(fleet: Worker) -> None:
    Lease.objects.filter(phase="expensive").update(phase="gone")
    assert ("gone", 1) in check("Slots").parts
    assert check("Slots").is_right


def test_pauses_are_shown_with_who_and_why(fleet: Worker) -> None:
    controls.pause("prep.high", SAM)
    controls.pause("expensive", SAM)
    assert "prep.high paused by sam: the disk is full" in texts()
    assert "phase:expensive paused by sam: the disk is full" in texts()
    assert cell("prep", "high").paused


def test_work_without_a_live_worker_is_the_first_alarm() -> None:
    enqueue(3, "w")
    assert read().alarms[0].text == "No worker is live, and 3 executions wait"


def test_a_session_that_keeps_the_scheduler_lock_is_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem("the scheduler lock is held by pid 7", "end that session")
    monkeypatch.setattr(dashboard, "held_lock", lambda: problem)
    assert read().alarms[0].text == "the scheduler lock is held by pid 7: end that session"


def test_an_idle_fleet_has_no_alarms() -> None:
    assert read().alarms == ()


def texts() -> list[str]:
    return [alarm.text for alarm in read().alarms]


def statements() -> int:
    process_state.reset_all()
    with CaptureQueriesContext(connection) as captured:
        dashboard.read()
    return len(captured.captured_queries)


def grow(begin: int, end: int) -> None:
    """So many more of everything a dashboard counts, and a twentieth as many routes and minutes."""
    numbers, now = range(begin, end), database_now()
    Limit.objects.bulk_create(
        Limit(name=f"host:{n}.example:443", rate="1/s", daily_budget=9) for n in numbers
    )
    enqueue_many(
        "probe", [NewExecution(f"r{n}", {"limit_key": f"host:{n}.example:443"}) for n in numbers[::20]]
    )
    routes = list(Execution.objects.waiting().values_list("route_id", flat=True).distinct())
    same: dict[str, Any] = {"flow": "probe", "phase": "prep", "step": "probe"}
    failed = {**same, "state": State.FAILED, "finished_at": now}
    Execution.objects.bulk_create(
        execution
        for n in numbers
        for execution in (
            Execution(key=f"w{n}", route_id=routes[n % len(routes)], **same),
            Execution(key=f"f{n}", error_kind=f"kind{n}", error_fingerprint=f"{n:x}", **failed),
        )
    )
    Worker.objects.bulk_create(
        Worker(name=f"w{n}", host="test", pid=n, queues=[], slots=1, started_at=now, seen_at=now)
        for n in numbers
    )
    for n in numbers[::20]:
        a_minute(timedelta(minutes=n), outcome="failed", error_kind=f"kind{n}")


def test_the_dashboard_costs_the_same_queries_for_10_rows_and_for_1000(fleet: Worker) -> None:
    grow(0, 10)
    few = statements()
    grow(10, 1000)
    assert statements() == few
    assert few < 45
