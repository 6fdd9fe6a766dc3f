"""Whatever the fleet looks like: no limit is passed, and no slot idles that could be used."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from queuemgr.admission import Rule, Snapshot, Use, WaitingRoute, admit
from queuemgr.flow import HIGH, PRIORITY_NAMES, queue_name

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
PHASES = ("prep", "expensive", "wrap")
QUEUES = [queue_name(phase, rank) for phase in PHASES for rank in PRIORITY_NAMES]
KEYS = ("", "host:a", "host:b")
NAMES = ("fleet", *(f"phase:{phase}" for phase in PHASES), *KEYS[1:])

small = st.integers(0, 6)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    most = draw(small)
    reserved = draw(st.integers(0, max(0, most - 1)))
    budget = draw(st.none() | st.integers(0, 12))
    return Rule(
        most, reserved, daily_budget=budget,
        paused=draw(st.sampled_from(("", "", "", "paused by x"))),
    )  # fmt: skip


@st.composite
def routes(draw: st.DrawFn) -> tuple[WaitingRoute, ...]:
    kinds = st.tuples(
        st.sampled_from(PHASES), st.sampled_from(sorted(PRIORITY_NAMES)), st.booleans(),
        st.sampled_from(KEYS), st.integers(0, 3), st.integers(1, 3),
    )  # fmt: skip
    chosen = draw(st.lists(kinds, max_size=8, unique=True))
    ages = st.integers(0, 500).map(lambda seconds: NOW - timedelta(seconds=seconds))
    return tuple(
        WaitingRoute(number, *kind, draw(small), draw(ages), draw(ages), PHASES.index(kind[0]))
        for number, kind in enumerate(chosen, start=1)
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    groups = st.dictionaries(
        st.frozensets(st.sampled_from(QUEUES), min_size=1), st.integers(0, 5), max_size=4
    )
    uses = st.builds(
        lambda below, high, spent, reserved: Use(below + high, below, spent, reserved),
        small, small, small, small,
    )  # fmt: skip
    return Snapshot(
        now=NOW,
        routes=draw(routes()),
        rules=draw(st.dictionaries(st.sampled_from(NAMES), rules())),
        use=draw(st.dictionaries(st.sampled_from(NAMES), uses)),
        paused_queues={},
        idle=draw(groups),
        on_their_way=draw(st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 3), max_size=3)),
    )


def after(seen: Snapshot, starts: tuple[int, ...]) -> dict[str, Use]:
    """What stands against each limit once these have started."""
    use = {name: seen.use.get(name, Use()) for name in NAMES}
    total = {n: Use(u.running, u.below_high, u.spent, u.reserved) for n, u in use.items()}
    by_id = {route.id: route for route in seen.routes}
    for start in starts:
        route = by_id[start]
        for name, _ in route.claims:
            total[name].running += route.weight
            total[name].below_high += route.weight if route.priority != HIGH else 0
            total[name].reserved += route.cost
    return total


@given(snapshots())
@settings(max_examples=200, deadline=None)
def test_no_start_ever_passes_a_limit(seen: Snapshot) -> None:
    starts = admit(seen).starts
    started = {route.id: route for route in seen.routes if route.id in starts}
    total = after(seen, starts)
    for name in {name for route in started.values() for name, _ in route.claims}:
        rule, use = seen.rule(name), total[name]
        assert not rule.paused
        assert not rule.max_running or use.running <= rule.max_running
        low_started = any(r.priority != HIGH and name in dict(r.claims) for r in started.values())
        if rule.max_running and low_started:
            assert use.below_high <= rule.max_running - rule.reserved_high
        if rule.daily_budget is not None and any(
            r.cost and name in dict(r.claims) for r in started.values()
        ):
            assert use.spent + use.reserved <= rule.daily_budget


@given(snapshots())
@settings(max_examples=200, deadline=None)
def test_whatever_did_not_start_is_given_a_reason_and_nothing_admissible_is_left(
    seen: Snapshot,
) -> None:
    decision = admit(seen)
    started = Counter(decision.starts)
    for route in seen.routes:
        assert started[route.id] <= route.due
        if started[route.id] < route.due or not route.due:
            assert decision.reasons[route.id]
        else:
            assert route.id not in decision.reasons


@given(snapshots())
@settings(max_examples=150, deadline=None)
def test_every_start_can_be_matched_with_an_idle_slot_that_consumes_its_queue(
    seen: Snapshot,
) -> None:
    by_id = {route.id: route.queue for route in seen.routes}
    asked = Counter(by_id[start] for start in admit(seen).starts)
    for chosen in _subsets(list(asked)):
        reachable = sum(n for group, n in seen.idle.items() if group & set(chosen))
        assert sum(asked[queue] for queue in chosen) <= reachable, "Hall's condition"


@given(snapshots())
@settings(max_examples=200, deadline=None)
def test_the_same_snapshot_always_gives_the_same_decision(seen: Snapshot) -> None:
    assert admit(seen).starts == admit(seen).starts


def _subsets(queues: list[str]) -> list[list[str]]:
    return [
        [queue for bit, queue in enumerate(queues) if mask >> bit & 1]
        for mask in range(1, 2 ** len(queues))
    ]
