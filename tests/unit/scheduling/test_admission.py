"""The pure decision: what starts, in which order, and why the rest waits."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from queuemgr.base.limit_shorthand import DAILY_BUDGET, daily_budget, starts
from queuemgr.base.rate import Rate
from queuemgr.flows.flow import HIGH, LOW, NORMAL, PRIORITY_NAMES, queue_name
from queuemgr.scheduling.admission import admit
from queuemgr.scheduling.capacity import Capacity
from queuemgr.scheduling.decision_input import (
    BreakerState,
    LimitRule,
    MeterUsage,
    SchedulingPolicy,
    Snapshot,
    Usage,
    WaitingRoute,
)

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
RANKS = {"expensive": 0, "wrap": 1, "prep": 2}
EVERYWHERE = frozenset(queue_name(phase, rank) for phase in RANKS for rank in PRIORITY_NAMES)


def route(number: int, **given: object) -> WaitingRoute:
    fields: dict[str, object] = {
        "phase": "prep", "priority": NORMAL, "resumed": False, "limit_keys": "", "cost": 0,
        "weight": 1, "due": 100, "head_at": NOW - timedelta(minutes=5), "served_at": NOW,
    } | given  # fmt: skip
    return WaitingRoute(id=number, phase_rank=RANKS[str(fields["phase"])], **fields)


def snapshot(*routes: WaitingRoute, slots: int = 100, **given: object) -> Snapshot:
    fields: dict[str, object] = {
        "now": NOW, "rules": {}, "use": {}, "paused_queues": {}, "idle": {EVERYWHERE: slots},
        "unstarted": {},
    } | given  # fmt: skip
    return Snapshot(routes=routes, **fields)


@pytest.mark.parametrize(
    ("high_running", "low_running", "starter", "may_start"),
    [
        (0, 0, LOW, True),
        (0, 1, LOW, True),
        (0, 2, LOW, False),
        (0, 2, HIGH, True),
        (1, 2, LOW, False),
        (1, 1, LOW, True),
        (2, 0, HIGH, True),
        (3, 0, HIGH, False),
        (2, 1, LOW, False),
        (1, 2, HIGH, False),
    ],
)
def test_three_slots_with_one_reserved_hold_the_seed_table_line_by_line(
    high_running: int, low_running: int, starter: int, may_start: bool
) -> None:
    running = high_running + low_running
    seen = snapshot(
        route(1, priority=starter, due=1),
        rules={"fleet": LimitRule(max_running=3, reserved_high=1)},
        use={"fleet": Usage(running=running, below_high=low_running)},
    )
    assert bool(admit(seen).starts) is may_start


def test_resumed_work_starts_before_new_work_and_each_in_order_of_phase() -> None:
    routes = [
        route(number, phase=phase, resumed=resumed, due=1)
        for number, (phase, resumed) in enumerate(
            [("prep", False), ("wrap", False), ("expensive", False),
             ("prep", True), ("wrap", True), ("expensive", True)]
        )
    ]  # fmt: skip
    assert admit(snapshot(*routes)).starts == (5, 4, 3, 2, 1, 0)


def test_a_higher_priority_starts_before_any_lower_one_whatever_the_phase() -> None:
    low_expensive = route(1, phase="expensive", resumed=True, priority=LOW, due=1)
    high_prep = route(2, priority=HIGH, due=1)
    assert admit(snapshot(low_expensive, high_prep, slots=1)).starts == (2,)


def test_keys_are_served_round_robin_however_many_executions_one_has() -> None:
    many = route(1, limit_keys="host:a", due=50, head_at=NOW - timedelta(hours=9))
    few = route(2, limit_keys="host:b", due=2)
    assert admit(snapshot(many, few, slots=4)).starts == (1, 2, 1, 2)


def test_a_full_key_is_skipped_and_leaves_no_slot_idle() -> None:
    full = route(1, limit_keys="host:a", head_at=NOW - timedelta(hours=9))
    free = route(2, limit_keys="host:b")
    decision = admit(
        snapshot(full, free, slots=3, rules={"host:*": LimitRule(max_running=4)}, use={"host:a": Usage(4)})
    )
    assert decision.starts == (2, 2, 2)
    assert decision.reasons[1][0].text == "host:a 4/4"


def test_the_rule_of_a_key_is_its_own_row_else_the_longest_pattern_that_matches() -> None:
    rules = {"host:*": LimitRule(4), "host:slow*": LimitRule(1), "host:slow.org:443": LimitRule(9)}
    seen = snapshot(rules=rules)
    names = ("host:fast.org:443", "host:slow.net:443", "host:slow.org:443", "tenant:x")
    assert [seen.rule(name).max_running for name in names] == [4, 1, 9, 0]


def test_a_limit_lowered_below_what_runs_only_drains_and_says_by_how_much_it_is_over() -> None:
    """Free slots below zero must never read as free."""
    seen = snapshot(
        route(1), route(2, phase="wrap", due=1),
        rules={"phase:prep": LimitRule(max_running=4)}, use={"phase:prep": Usage(running=10)},
    )  # fmt: skip
    decision = admit(seen)
    assert decision.starts == (2,)
    assert decision.reasons[1][0].text == "phase:prep 10/4, over its cap by 6"


def test_the_budget_is_reserved_at_each_start_so_it_is_never_exceeded() -> None:
    seen = snapshot(
        route(1, cost=3),
        rules={"fleet": LimitRule(allowances=(daily_budget(20),))},
        use={"fleet": Usage(meters={DAILY_BUDGET: MeterUsage(spent=9, reserved=3)})},
    )
    decision = admit(seen)
    assert len(decision.starts) == 2
    assert decision.reasons[1][0].text.startswith("fleet requests 9 of 20 per day spent and 9 reserved")


def test_work_that_costs_nothing_starts_with_the_budget_spent() -> None:
    seen = snapshot(
        route(1, cost=0, due=1),
        rules={"fleet": LimitRule(allowances=(daily_budget(5),))},
        use={"fleet": Usage(meters={DAILY_BUDGET: MeterUsage(spent=5)})},
    )
    assert admit(seen).starts == (1,)


def test_a_pause_stops_starts_and_says_who_paused_and_why() -> None:
    seen = snapshot(route(1), rules={"fleet": LimitRule(paused="paused by ann: upgrade")})
    decision = admit(seen)
    assert decision.starts == ()
    assert decision.reasons[1][0].text == "fleet paused by ann: upgrade"


def test_nothing_is_granted_that_no_live_worker_consumes() -> None:
    decision = admit(snapshot(route(1), idle={frozenset({"wrap.low"}): 5}))
    assert decision.starts == ()
    assert decision.reasons[1][0].text == "no live worker consumes prep.normal"


def test_unstarted_leases_occupy_slots_so_no_message_waits_behind_a_busy_worker() -> None:
    decision = admit(snapshot(route(1), slots=5, unstarted={"prep.normal": 3}))
    assert len(decision.starts) == 2


def test_work_that_is_not_due_does_not_start_and_says_when_it_is_due() -> None:
    later = NOW + timedelta(minutes=1)
    decision = admit(snapshot(route(1, due=0, head_at=later)))
    assert decision.starts == ()
    assert decision.reasons[1][0].until == later


def test_a_lease_is_rematched_with_another_group_when_that_frees_a_slot() -> None:
    """One worker takes both queues, one only `a`: two leases fit in any order of asking."""
    both, only_a = frozenset({"a", "b"}), frozenset({"a"})
    capacity = Capacity({both: 1, only_a: 1}, {})
    assert capacity.take("a")
    assert capacity.take("b")
    assert not capacity.take("a")
    assert not capacity.take("b")


def test_an_overfull_queue_of_messages_leaves_no_capacity_rather_than_negative_capacity() -> None:
    capacity = Capacity({frozenset({"a"}): 1}, {"a": 5})
    assert capacity.free == 0
    assert not capacity.take("a")


HOUR = timedelta(hours=1)


def test_aged_work_starts_before_younger_work_of_the_next_priority_level() -> None:
    """A steady stream of better work cannot keep the lowest from ever running."""
    old = route(1, priority=LOW, due=3, head_at=NOW - 1.5 * HOUR, overdue=2)
    young = route(2, priority=NORMAL, due=5)
    high = route(3, priority=HIGH, due=1)
    seen = snapshot(old, young, high, slots=4, ordering=SchedulingPolicy(starvation=HOUR))
    assert admit(seen).starts == (3, 1, 1, 2), "two had waited too long, the third had not"
    assert admit(snapshot(old, young, high, slots=4)).starts == (3, 2, 2, 2), "without the bound"


def test_each_starvation_time_waited_raises_work_by_one_priority_level() -> None:
    old = route(1, priority=LOW, due=1, head_at=NOW - 2.5 * HOUR, overdue=1)
    high = route(2, priority=HIGH, due=1)
    seen = snapshot(old, high, slots=1, ordering=SchedulingPolicy(starvation=HOUR))
    assert admit(seen).starts == (1,)


def test_aged_work_takes_no_reserved_slot() -> None:
    old = route(1, priority=LOW, due=5, head_at=NOW - 3 * HOUR, overdue=5)
    seen = snapshot(
        old,
        ordering=SchedulingPolicy(starvation=HOUR),
        rules={"fleet": LimitRule(max_running=3, reserved_high=1)},
    )
    assert admit(seen).starts == (1, 1)


def test_capacity_is_reserved_for_heavy_work_that_waited_long_and_better_work_continues() -> None:
    heavy = route(1, weight=3, due=1, head_at=NOW - timedelta(minutes=2))
    light = route(2, due=9, resumed=True)
    high = route(3, priority=HIGH, due=1)
    rules = {"fleet": LimitRule(max_running=4)}
    use = {"fleet": Usage(running=2)}
    patient = snapshot(heavy, light, high, rules=rules, use=use)
    assert admit(patient).starts == (3, 2)
    reserving = snapshot(
        heavy, light, high, rules=rules, use=use,
        ordering=SchedulingPolicy(heavy_wait=timedelta(minutes=1)),
    )  # fmt: skip
    decision = admit(reserving)
    assert decision.starts == (3,)
    assert decision.reasons[2][0].text.startswith("fleet: capacity reserved for work of weight 3")
    free = snapshot(
        heavy, light, rules=rules, ordering=SchedulingPolicy(heavy_wait=timedelta(minutes=1))
    )  # fmt: skip
    assert Counter(admit(free).starts) == {1: 1, 2: 1}


def test_no_capacity_is_reserved_for_heavy_work_that_another_limit_blocks_too() -> None:
    heavy = route(1, weight=3, due=1, limit_keys="host:a", head_at=NOW - HOUR)
    light = route(2, due=9)
    seen = snapshot(
        heavy, light, rules={"fleet": LimitRule(max_running=4), "host:a": LimitRule(paused="paused by ann")},
        use={"fleet": Usage(running=2)}, ordering=SchedulingPolicy(heavy_wait=timedelta(minutes=1)),
    )  # fmt: skip
    assert admit(seen).starts == (2, 2)


def test_an_open_breaker_says_until_when_and_why_and_a_half_open_one_how_many() -> None:
    later = NOW + timedelta(seconds=9)
    open_state = BreakerState(open_until=later, open_reason="10 x timeout in a row")
    seen = snapshot(route(1, limit_keys="host:a"), breaker_states={"host:a": open_state})
    (reason,) = admit(seen).reasons[1]
    assert (reason.kind, reason.until) == ("breaker_open", later)
    assert reason.text == "host:a breaker open until 12:00:09 UTC: 10 x timeout in a row"
    half_open = BreakerState(open_reason="10 x timeout in a row", half_open_starts=2)
    seen = snapshot(route(1, limit_keys="host:a", due=5), breaker_states={"host:a": half_open})
    assert admit(seen).starts == (1, 1)
    (reason,) = admit(seen).reasons[1]
    assert (reason.kind, reason.until) == ("half_open", None)
    assert reason.text == "host:a breaker half-open after 10 x timeout in a row: 2 at a time"


def test_a_limit_with_a_retry_after_is_reported_as_throttled() -> None:
    later = NOW + timedelta(seconds=9)
    state = BreakerState(open_until=later, open_reason="429, Retry-After 9 s", half_open_starts=1)
    seen = snapshot(route(1, limit_keys="host:a"), breaker_states={"host:a": state})
    (reason,) = admit(seen).reasons[1]
    assert reason.text == "host:a throttled until 12:00:09 UTC (429, Retry-After 9 s)"


def test_a_rate_says_when_the_next_may_start_and_the_decision_wakes_up_then() -> None:
    clock = MeterUsage(clock=NOW.timestamp() + 2.1)
    seen = snapshot(
        route(1, limit_keys="host:a"),
        use={"host:a": Usage(meters={"starts": clock})},
        rules={"host:a": LimitRule(allowances=(starts(Rate(3)),))},
    )
    decision = admit(seen)
    assert decision.reasons[1][0].text == "host:a next in 2.1 s"
    assert decision.wake_at == NOW + timedelta(seconds=2.1)


def test_the_last_part_of_a_budget_is_reserved_for_higher_priority() -> None:
    rule = LimitRule(allowances=(daily_budget(100, high=10, low=30),))
    starts = {
        priority: len(admit(snapshot(
            route(1, priority=priority, cost=10, due=20), rules={"fleet": rule}
        )).starts)
        for priority in (HIGH, NORMAL, LOW)
    }  # fmt: skip
    assert starts == {HIGH: 10, NORMAL: 9, LOW: 7}


def test_work_that_can_never_fit_is_distinguished_from_work_that_waits() -> None:
    """No amount of waiting helps, so it does not say `resets`."""
    seen = snapshot(route(1, cost=6), rules={"fleet": LimitRule(allowances=(daily_budget(5),))})
    text = admit(seen).reasons[1][0].text
    assert text == "fleet: uses 6 requests, more than its allowance of 5 can ever hold"
    seen = snapshot(route(1, weight=3), rules={"fleet": LimitRule(max_running=2)})
    assert admit(seen).reasons[1][0].text == "fleet: takes 3, more than its cap of 2 can ever hold"


def test_no_capacity_is_reserved_for_heavy_work_that_can_never_fit() -> None:
    """A cap lowered below its weight must not stop the light work of its class for ever."""
    order = SchedulingPolicy(heavy_wait=timedelta(minutes=1))
    for rule in (LimitRule(max_running=2), LimitRule(max_running=4, reserved_high=2)):
        heavy = route(1, weight=3, due=1, head_at=NOW - HOUR)
        decision = admit(snapshot(heavy, route(2, due=9), rules={"fleet": rule}, ordering=order))
        assert decision.starts == (2, 2)
        assert decision.reasons[1][0].kind == "never"
