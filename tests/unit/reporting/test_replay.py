"""RecordedAttempt work put through the decision again: what starts when, under which limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.base.allowance import parse_allowances
from queuemgr.base.limit_shorthand import daily_budget, of_rate
from queuemgr.flows.flow import HIGH, LOW, NORMAL
from queuemgr.reporting.replay import summary
from queuemgr.reporting.replay.recording import RecordedAttempt, Recording, recording
from queuemgr.reporting.replay.simulation import Fleet, Replayed, replay
from queuemgr.scheduling.decision_input import (
    RETRIES_ALWAYS_ALLOWED,
    RETRY_WINDOW,
    LimitRule,
    SchedulingPolicy,
)

START = datetime(2026, 5, 4, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def attempt(execution: int, due: float = 0, ran: float = 10, **given: object) -> RecordedAttempt:
    """An attempt that started as soon as it fell due."""
    fields: dict[str, object] = {
        "phase": "prep", "step": "probe", "priority": NORMAL, "limit_keys": "", "resources": "",
        "weight": 1, "cost": 0, "retrying": False, "outcome": "done", "due_at": at(due),
        "started_at": at(due), "ended_at": at(due + ran),
    } | given  # fmt: skip
    return RecordedAttempt(execution, **fields)


def replayed(
    *attempts: RecordedAttempt, slots: int = 100, **given: object
) -> tuple[Recording, Replayed, list[float]]:
    """The recording, its replay, and when each attempt started, in seconds."""
    made = recording(attempts, START)
    rules = given.pop("rules", {})
    found = replay(made, Fleet(slots, rules, **given))
    went = {made.pieces[place].attempt: run.started_at for place, run in found.runs.items()}
    starts = [(began - START).total_seconds() for a in attempts if (began := went.get(a))]
    return made, found, [round(start, 3) for start in starts]


def test_without_limits_everything_starts_on_arrival() -> None:
    _, _, starts = replayed(attempt(1), attempt(2, due=3), attempt(3, due=5))
    assert starts == [0, 3, 5]


@pytest.mark.parametrize("name", ["fleet", "phase:prep", "host:a", "host:*"])
def test_a_concurrency_limit_holds(name: str) -> None:
    some = [attempt(n, limit_keys="host:a") for n in range(5)]
    _, _, starts = replayed(*some, rules={name: LimitRule(max_running=2)})
    assert starts == [0, 0, 10, 10, 20]


def test_no_more_run_than_there_are_slots() -> None:
    assert replayed(*map(attempt, range(3)), slots=1)[2] == [0, 10, 20]


def test_a_rate_spaces_starts_and_allows_bursts() -> None:
    some = [attempt(n, limit_keys="host:a") for n in range(4)]
    spaced = replayed(*some, rules={"host:*": LimitRule(allowances=of_rate("1/3s"))})[2]
    assert spaced == pytest.approx([0, 3, 6, 9], abs=0.001)
    at_once = replayed(*some, rules={"fleet": LimitRule(allowances=of_rate("1/3s burst 2"))})[2]
    assert at_once == pytest.approx([0, 0, 3, 6], abs=0.001)


@pytest.mark.parametrize("name", ["fleet", "phase:prep", "host:a", "host:*"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60 tokens/minute burst 20", [0, 0, 10, 20]),
        ("20 tokens/minute calendar", [0, 0, 60, 60]),
        ("30 tokens/day", [0, 0, 0, 12 * 3600]),
        ("20 tokens in total", [0, 0]),
        ("10 usd in total", [0, 0, 0, 0]),
        ("2 requests/minute calendar; 30 tokens/day", [0, 0, 60, 12 * 3600]),
    ],
)
def test_allowances_are_replayed_with_what_each_attempt_used(
    name: str, text: str, expected: list[float]
) -> None:
    some = [attempt(n, limit_keys="host:a", uses="tokens=10", cost=1) for n in range(4)]
    rules = {name: LimitRule(allowances=parse_allowances(text))}
    assert replayed(*some, rules=rules)[2] == pytest.approx(expected, abs=0.001)


def test_a_spent_budget_stops_work_until_the_next_day() -> None:
    some = [attempt(n, cost=2) for n in range(3)]
    made, found, starts = replayed(*some, rules={"fleet": LimitRule(allowances=(daily_budget(5),))})
    assert starts == pytest.approx([0, 0, 12 * 3600], abs=0.001)
    totals = summary.tally(made, "UTC", found)
    assert totals.requests == {"2026-05-04": 4, "2026-05-05": 2}
    assert totals.stopped_by_budget == 1


def test_what_can_never_start_is_counted_by_reason_and_does_not_hang_the_replay() -> None:
    made, found, starts = replayed(
        attempt(1, cost=9), attempt(2, weight=4), attempt(3),
        rules={"fleet": LimitRule(allowances=(daily_budget(5),), max_running=3)},
    )  # fmt: skip
    assert starts == [0]
    never = summary.tally(made, "UTC", found).never
    assert type(never) is dict, "`asdict` makes pairs the keys of a Counter"
    assert sorted(never) == [
        "fleet: takes 4, more than its cap of 3 can ever hold",
        "fleet: uses 9 requests, more than its allowance of 5 can ever hold",
    ]  # fmt: skip


def test_a_step_arrives_when_the_one_before_ends_and_a_retry_after_its_recorded_backoff() -> None:
    chain = [
        attempt(1, ran=10, outcome="retried"),
        attempt(1, due=40, ran=10, retrying=True),
        attempt(1, due=50, ran=5, phase="wrap"),
    ]
    other = attempt(0, ran=20, priority=HIGH)
    _, _, starts = replayed(other, *chain, slots=1)
    assert starts == [0, 20, 60, 70]


def test_high_priority_starts_first_and_may_use_reserved_slots() -> None:
    some = [attempt(0), attempt(1, due=1, priority=LOW), attempt(2, due=2, priority=HIGH)]
    assert replayed(*some, slots=1)[2] == [0, 20, 10]
    reserved = {"fleet": LimitRule(max_running=2, reserved_high=1)}
    assert replayed(*some, rules=reserved)[2] == [0, 10, 2]


def test_tenants_get_their_fair_share() -> None:
    many = [attempt(n, limit_keys="tenant:a") for n in range(6)]
    few = [attempt(n, limit_keys="tenant:b") for n in range(10, 12)]
    _, _, starts = replayed(*many, *few, slots=1)
    assert max(starts[6:]) <= 40
    shared = replayed(*many, *few, slots=1, rules={"tenant:a": LimitRule(share=3)})[2]
    assert max(shared[6:]) > max(starts[6:])


def test_starved_work_is_aged_to_a_better_priority() -> None:
    some = [attempt(n, due=n * 10, priority=NORMAL) for n in range(12)]
    low = attempt(20, due=1, priority=LOW)
    hungry = replayed(*some, low, slots=1)[2]
    aged = replayed(*some, low, slots=1, policy=SchedulingPolicy(starvation=timedelta(seconds=30)))[2]
    assert (hungry[-1], aged[-1]) == (120, 40)


def test_retries_stay_within_the_retry_budget() -> None:
    always = RETRIES_ALWAYS_ALLOWED
    some = [attempt(n, retrying=True) for n in range(always + 2)]
    _, _, starts = replayed(*some, slots=1000, retry_percent=50)
    assert starts[:always] == [0] * always
    assert starts[always] >= RETRY_WINDOW.total_seconds()


def test_work_that_waited_before_the_recording_arrives_at_its_start_and_keeps_its_age() -> None:
    old = attempt(1, due=-600, started_at=at(0), ended_at=at(10))
    made, found, starts = replayed(old)
    assert starts == [0]
    assert summary.tally(made, "UTC", found).waits["normal"].longest == 600


def test_totals_of_the_recording_are_computed_from_its_attempts() -> None:
    some = [
        attempt(n, started_at=at(n), ended_at=at(n + 10), cost=1, outcome=outcome)
        for n, outcome in enumerate(["done", "skipped", "failed", "done"])
    ]
    made = recording(some, START)
    totals = summary.tally(made, "UTC")
    assert (made.max_running, totals.makespan, totals.attempts) == (4, 13, 4)
    assert totals.per_hour == pytest.approx(3 * 3600 / 13)
    assert totals.waits["normal"] == summary.Waits(4, 1.5, 3, 3)
    assert (totals.requests, totals.stopped_by_budget) == ({"2026-05-04": 4}, None)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 60), st.integers(1, 40), st.sampled_from(("", "host:a", "host:b")),
            st.sampled_from((HIGH, NORMAL, LOW)), st.booleans(),
        ),
        min_size=1, max_size=25,
    ),
    st.integers(1, 5), st.integers(1, 4), st.integers(1, 2),
)  # fmt: skip
def test_whatever_was_recorded_all_of_it_starts_and_no_limit_is_exceeded(
    drawn: list[tuple[int, int, str, int, bool]], slots: int, prep: int, host: int
) -> None:
    attempts = [
        attempt(n, due=due, ran=ran, limit_keys=keys, priority=priority, retrying=retrying)
        for n, (due, ran, keys, priority, retrying) in enumerate(drawn)
    ]
    rules = {"phase:prep": LimitRule(max_running=prep), "host:*": LimitRule(max_running=host)}
    policy = SchedulingPolicy(starvation=timedelta(seconds=20))
    _, _, starts = replayed(*attempts, slots=slots, rules=rules, policy=policy, retry_percent=10)
    assert len(starts) == len(attempts)
    for start, started in zip(starts, attempts, strict=True):
        assert start >= (started.due_at - START).total_seconds()
    for moment in starts:
        running = [
            a for a, start in zip(attempts, starts, strict=True)
            if start <= moment < start + a.run_time.total_seconds()
        ]  # fmt: skip
        assert len(running) <= min(slots, prep)
        for name in ("host:a", "host:b"):
            assert sum(a.limit_keys == name for a in running) <= host
