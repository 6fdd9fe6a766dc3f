"""How often a run came close to breaking each promise; otherwise the rules had nothing to judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from proof.limit_values import LimitValues
from proof.records import History
from proof.rules.allowances import PLACES, judged
from proof.rules.order import comparable
from proof.rules.rates import uses

BOUND = "starts that left no room for another like them under an allowance of "

NEAR_BUDGET = 3
"""Requests the most expensive step costs."""


def counted(history: History) -> dict[str, int]:
    """How often each promise was put under pressure, by name."""
    return {
        "starts that filled the fleet's cap": _starts_that_filled_the_fleet(history),
        "starts that brought a day's requests to within 3 of the budget": _starts_at_the_budget(history),
        "low executions enqueued while high ones that must pass them waited": _passed(history),
        **_bound_by_allowances(history),
        "starts under a rate": _starts_under_a_rate(history),
        "starts under a rate while work waited and slots were idle": sum(u.starts for u in uses(history)),
        "backlogs under a rate that were not judged": len(history.backlogs) - len(uses(history)),
        "attempts of hostile code": sum(a.key.startswith("hostile/") for a in history.attempts),
        "leases lost": sum(attempt.outcome == "lost" for attempt in history.attempts),
        "attempts cancelled by an operator": sum(a.outcome == "cancelled" for a in history.attempts),
        "restores of a backup": len(history.rewinds),
        "due times that became executions": sum(bool(run.key) for run in history.scheduled),
        "due times that were missed, one after another": sum(
            r.outcome == "missed" for r in history.scheduled
        ),
        "calls for what was there already": len(history.calls) - len({call.got for call in history.calls}),
        "batches that completed": sum(batch.completed is not None for batch in history.batches),
        "hosts that disappeared while they held the scheduler lock": history.locks_lost,
    }


def _bound_by_allowances(history: History) -> dict[str, int]:
    bound = Counter((each.place, each.kind.rolls) for each in judged(history) if each.binds)
    hows = ((False, "by the calendar or in total"), (True, "rolling"))
    return {f"{BOUND}{place}, {how}": bound[place, rolls] for place in PLACES for rolls, how in hows}


def unbound(pressure: Mapping[str, int]) -> list[str]:
    """The kinds of limits whose allowances stopped nothing in a run, which so says nothing of them."""
    return [
        edge.removeprefix(BOUND) for edge, times in pressure.items() if edge.startswith(BOUND) and not times
    ]


def _starts_that_filled_the_fleet(history: History) -> int:
    limit_values, attempts = LimitValues(history.edits), history.attempts
    return sum(
        sum(other.leased <= a.leased < other.ended for other in attempts)
        >= limit_values.most_running("fleet", a.leased, a.leased)
        for a in attempts
    )


def _starts_at_the_budget(history: History) -> int:
    limit_values, spent, near = LimitValues(history.edits), 0, 0
    for attempt in sorted(history.attempts, key=lambda a: a.leased):
        spent += attempt.cost
        budget = limit_values.most_budget("fleet", attempt.leased, attempt.leased)
        near += bool(attempt.cost) and spent >= budget - NEAR_BUDGET
    return near


def _passed(history: History) -> int:
    waits = Counter(low.key for low, _, _ in comparable(history))
    return len(waits)


def _starts_under_a_rate(history: History) -> int:
    rated = {rate.limit for rate in history.rates}
    return sum(bool(rated & set(attempt.names)) for attempt in history.attempts)
