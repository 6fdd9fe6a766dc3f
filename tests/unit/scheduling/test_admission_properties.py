"""Whatever the fleet looks like: no limit is passed, no reason is false, no slot idles that could be
used, and the order of starts is the order promised."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from queuemgr.flows.flow import HIGH, NORMAL, PRIORITY_NAMES
from queuemgr.scheduling.admission import admit, open_queues
from queuemgr.scheduling.decision_input import LimitRule, SchedulingPolicy, Snapshot, WaitingRoute
from tests.private_servers import MODEL_EXAMPLES
from tests.unit.scheduling.generated_fleets import (
    HEAVY_WAIT,
    NOW,
    PHASES,
    QUEUES,
    STARVATION,
    Standing,
    matchable,
    rule_of,
    slot_of,
    snapshots,
)

often = settings(max_examples=max(60, 6 * MODEL_EXAMPLES), deadline=None)


@given(snapshots())
@often
def test_no_start_ever_passes_a_limit(seen: Snapshot) -> None:
    """Each start in turn is stopped by nothing, given those before it."""
    standing = Standing(seen)
    for start in admit(seen).starts:
        assert not standing.stops(standing.routes[start])
        standing.add(standing.routes[start])


@given(snapshots())
@often
def test_rates_hold_however_late_what_was_granted_begins(seen: Snapshot) -> None:
    starts = admit(seen).starts
    standing = Standing(seen, starts)
    for name in {name for start in starts for name, _ in standing.routes[start].claims}:
        rate = rule_of(seen, name).rate
        assert not rate or standing.conforms(name, rate)


@given(snapshots())
@often
def test_whatever_did_not_start_has_exactly_the_reasons_that_are_true(seen: Snapshot) -> None:
    decision = admit(seen)
    end = Standing(seen, decision.starts)
    reserved = Standing(seen).reservations()
    for route in seen.routes:
        started, reasons = end.started[route.id], decision.reasons.get(route.id, ())
        assert started <= route.due
        assert bool(reasons) is (started < route.due or not route.due)
        for reason in reasons:
            assert reason.text
            if reason.kind == "run_after":
                assert not route.due
            elif reason.kind == "workers":
                assert _no_slot_for_one_more(seen, end, route)
            elif reason.kind == "reserved":
                others = [heavy for heavy in reserved[reason.limit] if heavy.id != route.id]
                assert any(Standing(seen).rank(heavy) <= end.rank(route) for heavy in others)
            else:
                assert (reason.limit, reason.kind) in end.stops(route)


@given(snapshots())
@often
def test_everything_admissible_starts_unless_capacity_is_reserved_for_heavy_work(seen: Snapshot) -> None:
    decision = admit(seen)
    end = Standing(seen, decision.starts)
    reserved = Standing(seen).reservations()
    for route in seen.routes:
        if end.started[route.id] < route.due and not end.stops(route):
            yields = any(
                heavy.id != route.id and Standing(seen).rank(heavy) <= end.rank(route)
                for name, _ in route.claims
                for heavy in reserved.get(name, ())
            )
            assert yields or _no_slot_for_one_more(seen, end, route)


def _no_slot_for_one_more(seen: Snapshot, standing: Standing, route: WaitingRoute) -> bool:
    taken = [queue for queue, count in seen.unstarted.items() for _ in range(count)]
    taken += [slot_of(standing.routes[pk]) for pk, count in standing.started.items() for _ in range(count)]
    return matchable(seen, [*taken, slot_of(route)]) == matchable(seen, taken)


@given(snapshots())
@often
def test_every_start_can_be_matched_with_an_idle_slot_that_takes_it(seen: Snapshot) -> None:
    slots = {route.id: slot_of(route) for route in seen.routes}
    starts = [slots[start] for start in admit(seen).starts]
    unstarted = [queue for queue, count in seen.unstarted.items() for _ in range(count)]
    assert matchable(seen, unstarted + starts) == matchable(seen, unstarted) + len(starts)


AS_OLD = NOW - STARVATION
HEAVY_BESIDE_AGED = Snapshot(
    now=NOW,
    routes=(
        WaitingRoute("prep", NORMAL, False, "", 0, 1, id=1, due=1, head_at=AS_OLD, served_at=NOW),
        WaitingRoute(
            "prep", HIGH, False, "", 0, 1, "cpu=2", id=2, due=1, head_at=AS_OLD, served_at=AS_OLD
        ),
    ),
    rules={}, use={}, paused_queues={}, idle={frozenset(QUEUES): 2}, unstarted={},
    ordering=SchedulingPolicy(STARVATION, HEAVY_WAIT),
)  # fmt: skip
"""Both go by age and are equally old: seldom drawn."""


@given(snapshots())
@example(HEAVY_BESIDE_AGED)
@often
def test_higher_levels_start_first_and_aged_work_before_younger_work_of_its_new_level(seen: Snapshot) -> None:
    """Of any two that both start, whichever the order promises first is first: level, then what was
    aged or is heavy and old by its age, and of two such the older."""
    standing, last = Standing(seen), (HIGH, False, NOW - 9 * STARVATION)
    for start in admit(seen).starts:
        route = standing.routes[start]
        by_age = standing.goes_by_age(route)
        place = (standing.rank(route), not by_age, route.head_at if by_age else NOW)
        assert place >= last, "a start came after one that should have waited for it"
        last = place
        standing.add(route)


@given(snapshots())
@often
def test_nothing_of_its_level_or_below_takes_the_capacity_reserved_for_heavy_work(seen: Snapshot) -> None:
    standing = Standing(seen)
    reserved = {
        name: min(standing.rank(heavy) for heavy in heavies)
        for name, heavies in standing.reservations().items()
    }
    for start in admit(seen).starts:
        route = standing.routes[start]
        for name, _ in route.claims:
            assert name not in reserved or standing.rank(route) < reserved[name]
        standing.add(route)


@given(snapshots(), st.randoms(use_true_random=False))
@often
def test_the_decision_depends_only_on_the_snapshot(seen: Snapshot, rng: Random) -> None:
    """The same snapshot again, and one in another order, give the same decision."""
    routes, idle = list(seen.routes), list(seen.idle.items())
    rng.shuffle(routes)
    rng.shuffle(idle)
    decision = admit(seen)
    assert admit(seen) == decision
    assert admit(replace(seen, routes=tuple(routes), idle=dict(idle))).starts == decision.starts


@given(snapshots())
@often
def test_a_queue_is_reported_as_blocked_only_if_none_of_its_routes_would_start(seen: Snapshot) -> None:
    every = [(phase, rank) for phase in PHASES for rank in PRIORITY_NAMES]
    stopped = {queue for queue, reasons in open_queues(seen, every).items() if reasons}
    queues = {route.id: route.queue for route in seen.routes}
    assert not stopped & {queues[start] for start in admit(seen).starts}
    assert set(open_queues(seen, every)) == set(QUEUES)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 60))
@settings(max_examples=100, deadline=None)
def test_tenants_with_work_enough_are_served_by_their_shares_at_every_moment(
    share: int, other_share: int, keys: int, slots: int
) -> None:
    """Neither is ever more than one turn ahead, however many routes it has."""
    tenants = ["tenant:x"] * keys + ["tenant:y"]
    seen = Snapshot(
        now=NOW,
        routes=tuple(
            WaitingRoute(
                "prep", NORMAL, False, f"host:{number} {tenant}", 0, 1,
                id=number, due=slots, head_at=NOW, served_at=NOW,
            )
            for number, tenant in enumerate(tenants)
        ),
        rules={"tenant:x": LimitRule(share=share), "tenant:y": LimitRule(share=other_share)},
        use={}, paused_queues={}, idle={frozenset(QUEUES): slots}, unstarted={},
    )  # fmt: skip
    served = Counter[str]()
    for start in admit(seen).starts:
        served[seen.routes[start].tenant] += 1
        ahead = served["tenant:x"] / share - served["tenant:y"] / other_share
        assert -1 / other_share - 1e-9 <= ahead <= 1 / share + 1e-9
    assert served.total() == slots
