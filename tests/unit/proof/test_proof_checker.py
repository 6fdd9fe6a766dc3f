"""The checker of the proof passes a clean history and names every violation planted in one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proof.checker import RULES, check
from proof.records import (
    Attempt,
    Edit,
    Execution,
    Fault,
    History,
    Order,
    Rate,
    Refilled,
    Refusal,
    Rewind,
    SpentInPeriod,
    Usage,
)
from tests.unit.proof import periodic_cases
from tests.unit.proof.made_up_histories import (
    DAY,
    NOON,
    attempt,
    execution,
    limit,
    of,
    request,
    run,
    under_a_rate,
)


def rules(history: History) -> set[str]:
    return {violation.rule for violation in check(history)}


FETCH = {"step": "fetch", "limits": ("host:a",)}
A, B, C = attempt("a", 0, 10), attempt("b", 5, 15), attempt("c", 10, 20)
D = attempt("d", 40, 50)
TWO_FETCHES = attempt("a", 0, 10, **FETCH), attempt("b", 1, 10, **FETCH)
LOST, AGAIN = attempt("a", 0, 10, outcome="lost"), attempt("a", 10, 20)
FETCH_AFTER_FETCH = attempt("a", 0, 10, **FETCH), attempt("b", 10, 20, **FETCH)
HIGH = attempt("high", 20, 21, priority="high")
LOW = attempt("low", 10, 11, priority="low")
CREATED = [execution("high", created=0), execution("low", created=5)]

KILLED = Fault("kill workers", "alpha", NOON + 2, NOON + 12, leases="alpha")
ALL_KILLED = Fault("restart database", "database", NOON, NOON + 40, leases="any")
LATE = {"executions": [execution("a"), execution("b", created=60, finished=70)]}
GOING_ON = [attempt(f"b{second}", second, second + 1) for second in range(5, 40, 5)]
GOING_ON.append(attempt("a", 40, 41))
PROBE = attempt("probe/a", 0, 10)
THREE_LOSSES = [attempt("probe/a", at, at + 9, outcome="lost") for at in (0, 10, 20)]
POISONED = Execution("probe/a", "failed", NOON, NOON + 30, "poison")
KILLER = attempt("hostile/is-killed.1", 5, 8, outcome="lost"), attempt("hostile/is-killed.1", 9, 10)
KILLER_DONE = Execution("hostile/is-killed.1", "done", NOON, NOON + 30)
CANCELLED_AS_LOST = attempt("a", 0, 9, outcome="cancelled")
CANCELLED = Execution("a", "cancelled", NOON, NOON + 10)
REWIND = Rewind(NOON + 5, NOON + 15, NOON + 16)
RAISED = ("failed", "unexpected", "Own: from BaseException")


def tokens(of: Attempt, reserved: int, used: int | None = None) -> Attempt:
    spent = reserved if used is None else used
    return replace(of, reserved=(("tokens", reserved),), used=(("tokens", spent),))


def allowing(text: str, spent: int = 0) -> dict[str, Any]:
    """An allowance of the phase, and what the database says was spent of its period."""
    name = text.split()[1] if "/" in text else "tokens/total"
    period = SpentInPeriod("phase:prep", name, NOON, spent)
    return {"edits": [Edit("phase:prep", "allowances", text, 0, 0)], "periods": [period]}


def refilling(text: str, after: float) -> dict[str, Any]:
    """A rolling allowance of the phase, and when the database says it has refilled."""
    name = text.split()[1]
    return {**allowing(text), "periods": (), "refilled": [Refilled("phase:prep", name, NOON + after)]}


def under_keys(*keys: str) -> list[Attempt]:
    return [tokens(attempt(f"k{n}", n, n + 5, limits=(key,)), 9) for n, key in enumerate(keys)]


def of_code(
    way: str, *ends: tuple[str, str, str], state: tuple[str, str] = ("failed", "unexpected")
) -> History:
    """Hostile code whose attempts ended so: outcome, kind of error, message."""
    key = f"hostile/{way.replace(' ', '-')}.1"
    attempts = [
        attempt(key, 2 * n, 2 * n + 1, outcome=outcome, error=error, message=message)
        for n, (outcome, error, message) in enumerate(ends)
    ]
    ended = Execution(key, state[0], NOON, attempts[-1].ended, state[1])
    return of(*attempts, executions=[ended])


def order(verb: str, began: float, done: float) -> Order:
    return Order(verb, "a", NOON + began, NOON + done)


Case = tuple[str, History, History]

CASES: dict[str, Case] = {
    "a key with no execution": (
        "never lost", of(A, B), of(A, B, enqueued=dict.fromkeys("abc", NOON)),
    ),
    "a key with two executions": (
        "never lost", of(A), of(A, executions=[execution("a"), execution("a")]),
    ),
    "work that is not final": (
        "never lost", of(A), of(A, executions=[Execution("a", "waiting", NOON)]),
    ),
    "a lease left over": ("never lost", of(A), of(A, leases_left=1)),
    "a step done twice": (
        "never finished twice",
        of(attempt("a", 0, 3, outcome="lost"), attempt("a", 4, 6)),
        of(attempt("a", 0, 3), attempt("a", 4, 6)),
    ),
    "done, and no attempt says so": (
        "never finished twice", of(A), of(replace(A, outcome="lost")),
    ),
    "leased after it was done": (
        "never finished twice",
        of(A),
        of(A, attempt("a", 12, 13, outcome="lost"), executions=[execution("a", finished=10)]),
    ),
    "a lease begun twice": (
        "begun once", of(A, runs=[run(A, 0, 9)]), of(A, runs=[run(A, 0, 9), run(A, 2, 9)]),
    ),
    "a run without a lease": (
        "begun once", of(A, runs=[run(A, 0, 9)]), of(A, runs=[run(A, 0, 9), run(B, 5, 9)]),
    ),
    "two leases of one execution at once": (
        "one lease at a time",
        of(attempt("a", 0, 5, outcome="lost"), attempt("a", 5, 9)),
        of(attempt("a", 0, 8, outcome="lost"), attempt("a", 5, 9)),
    ),
    "a fleet's cap passed in leases": (
        "cap, in leases",
        of(A, B, C, edits=[limit("fleet", 2)]),
        of(A, B, attempt("c", 7, 20), edits=[limit("fleet", 2)]),
    ),
    "a phase's cap passed in leases": (
        "cap, in leases",
        of(A, replace(B, phase="wrap"), edits=[limit("phase:prep", 1)]),
        of(A, B, edits=[limit("phase:prep", 1)]),
    ),
    "a key's cap passed in leases, by the values of its pattern": (
        "cap, in leases",
        of(*TWO_FETCHES, edits=[limit("host:*", 1), limit("host:a", 2)]),
        of(*TWO_FETCHES, edits=[limit("host:*", 1), limit("host:b", 2)]),
    ),
    "a start above a cap that was lowered long before": (
        "cap, in leases",
        of(A, B, edits=[limit("fleet", 2), limit("fleet", 1, at=8)]),
        of(A, B, edits=[limit("fleet", 2), limit("fleet", 1, at=2)]),
    ),
    "a start above a cap raised only later": (
        "cap, in leases",
        of(A, B, edits=[limit("fleet", 1), limit("fleet", 2, at=4)]),
        of(A, B, edits=[limit("fleet", 1), limit("fleet", 2, at=7)]),
    ),
    "a cap passed in runs": (
        "cap, in runs",
        of(A, C, edits=[limit("fleet", 1)], runs=[run(A, 0, 10), run(C, 10, 19)]),
        of(A, C, edits=[limit("fleet", 1)], runs=[run(A, 0, 11), run(C, 10, 19)]),
    ),
    "a run that lost its lease counts until then, one without a recorded end as long as its lease": (
        "cap, in runs",
        of(LOST, AGAIN, edits=[limit("fleet", 1)], runs=[run(LOST, 0, 30), run(AGAIN, 10, None)]),
        of(LOST, AGAIN, edits=[limit("fleet", 1)], runs=[run(LOST, 0, 30), run(AGAIN, 9, None)]),
    ),
    "a run that lost its lease though its work was cancelled counts until then, too": (
        "cap, in runs",
        of(CANCELLED_AS_LOST, C, attempt("a", 40, 41), edits=[limit("fleet", 1)],
           runs=[run(CANCELLED_AS_LOST, 0, 30), run(C, 10, 19)]),
        of(CANCELLED_AS_LOST, C, attempt("a", 40, 41), edits=[limit("fleet", 1)],
           runs=[run(CANCELLED_AS_LOST, 0, 30), run(C, 8, 19)]),
    ),
    "a cap passed in requests": (
        "cap, in requests",
        of(*FETCH_AFTER_FETCH, edits=[limit("host:a", 1)],
           requests=[request("a", 0, 9), request("b", 10, 15)]),
        of(*FETCH_AFTER_FETCH, edits=[limit("host:a", 1)],
           requests=[request("a", 0, 12), request("b", 10, 15)]),
    ),
    "a reserved slot taken by normal work": (
        "reserve",
        of(A, replace(B, priority="high"),
           edits=[limit("fleet", 2), limit("fleet", 1, "reserved_high")]),
        of(A, B, edits=[limit("fleet", 2), limit("fleet", 1, "reserved_high")]),
    ),
    "a budget passed": (
        "budget",
        of(replace(A, cost=2), replace(B, cost=3), edits=[limit("fleet", 5, "daily_budget")]),
        of(replace(A, cost=3), replace(B, cost=3), edits=[limit("fleet", 5, "daily_budget")]),
    ),
    "a budget passed that was lowered before": (
        "budget",
        of(replace(A, cost=3), B, edits=[limit("fleet", 5, "daily_budget"),
                                         limit("fleet", 2, "daily_budget", at=2)]),
        of(replace(A, cost=3), replace(B, cost=1), edits=[limit("fleet", 5, "daily_budget"),
                                                          limit("fleet", 2, "daily_budget", at=2)]),
    ),
    "spending nobody did": (
        "usage",
        of(replace(A, cost=3), usage=[Usage(DAY, "phase:prep", 3)]),
        of(replace(A, cost=3), usage=[Usage(DAY, "phase:prep", 4)]),
    ),
    "tokens charged twice": (
        "allowance",
        of(tokens(A, 3), tokens(B, 4), **allowing("7 tokens in total", 7)),
        of(tokens(A, 3), tokens(B, 4), **allowing("7 tokens in total", 10)),
    ),
    "what was not used was given back twice": (
        "allowance",
        of(tokens(A, 200, 50), tokens(B, 100), **refilling("600 tokens/hour burst 900", 6 * 150)),
        of(tokens(A, 200, 50), tokens(B, 100), **refilling("600 tokens/hour burst 900", 6 * 50)),
    ),
    "what was used beyond what was reserved was not charged": (
        "allowance",
        of(tokens(A, 100, 150), tokens(B, 100), **refilling("600 tokens/hour burst 900", 6 * 250)),
        of(tokens(A, 100, 150), tokens(B, 100), **refilling("600 tokens/hour burst 900", 6 * 200)),
    ),
    "a minute's allowance passed by a start": (
        "allowance",
        of(tokens(A, 600, 100), tokens(B, 300), **allowing("1000 tokens/minute calendar", 400)),
        of(tokens(A, 800, 100), tokens(B, 300), **allowing("1000 tokens/minute calendar", 400)),
    ),
    "an allowance passed by who starts after an overrun": (
        "allowance",
        of(tokens(A, 600, 700), tokens(D, 300), **allowing("1000 tokens/day in Asia/Kathmandu", 1000)),
        of(tokens(A, 600, 701), tokens(D, 300), **allowing("1000 tokens/day in Asia/Kathmandu", 1001)),
    ),
    "a rolling allowance passed": (
        "allowance",
        of(tokens(A, 600), tokens(D, 400), **refilling("600 tokens/minute burst 700", 100)),
        of(tokens(A, 600), tokens(D, 400), **refilling("60 tokens/minute burst 700", 1000)),
    ),
    "tokens of a minute charged twice": (
        "allowance",
        of(tokens(A, 6), **allowing("9 tokens/minute calendar", 6)),
        of(tokens(A, 6), **allowing("9 tokens/minute calendar", 12)),
    ),
    "an allowance in total passed": (
        "allowance",
        of(tokens(A, 3), **allowing("3 tokens in total", 3)),
        of(tokens(A, 3), **allowing("2 tokens in total", 3)),
    ),
    "an allowance of each key of a pattern passed": (
        "allowance",
        of(*under_keys("pool:a", "pool:b"), edits=[Edit("pool:*", "allowances", "9 tokens/day", 0, 0)],
           periods=[SpentInPeriod(f"pool:{k}", "tokens/day", NOON, 9) for k in "ab"]),
        of(*under_keys("pool:a", "pool:a"), edits=[Edit("pool:*", "allowances", "9 tokens/day", 0, 0)],
           periods=[SpentInPeriod("pool:a", "tokens/day", NOON, 18)]),
    ),
    "younger low work before older high": (
        "order",
        of(replace(HIGH, leased=NOON + 9), LOW, executions=CREATED),
        of(HIGH, LOW, executions=CREATED),
    ),
    "a request no attempt accounts for": (
        "requests",
        of(TWO_FETCHES[0], requests=[request("a", 1, 2)]),
        of(TWO_FETCHES[0], requests=[request("a", 1, 2), request("a", 3, 4)]),
    ),
    "a rate passed": (
        "rate",
        of(A, B, C, rates=[Rate("fleet", 1, 5)]),
        of(A, replace(B, started=NOON + 4), C, rates=[Rate("fleet", 1, 5)]),
    ),
    "a rate that is not used while work waits": ("rate used", under_a_rate(0.2), under_a_rate(0.25)),
    "work under a rate that never starts": (
        "rate used", under_a_rate(0.2), under_a_rate(0.2, started=60),
    ),
    "a pause longer than any fault excuses": (
        "standstill",
        of(A, attempt("b", 26, 27), faults=[KILLED], **LATE),
        of(A, attempt("b", 50, 51), faults=[KILLED], **LATE),
    ),
    "a lease that ends long after its worker was killed": (
        "standstill",
        of(attempt("a", 0, 15, outcome="lost"), *GOING_ON, faults=[KILLED]),
        of(attempt("a", 0, 29, outcome="lost"), *GOING_ON, faults=[KILLED]),
    ),
    "a command that is refused when nothing is wrong": (
        "commands",
        of(A, refusals=[Refusal(NOON, NOON + 5, "no")]),
        of(A, refusals=[Refusal(NOON, NOON + 50, "no")], faults=[]),
    ),
    "a lease lost without a cause": (
        "lost for a reason",
        of(LOST, AGAIN, faults=[KILLED]),
        of(replace(LOST, worker="beta@host"), AGAIN, faults=[KILLED]),
    ),
    "hostile code that ended otherwise": (
        "hostile code", of_code("raises Own", RAISED), of_code("raises Own", ("failed", "network", "Own")),
    ),
    "hostile code whose misdeed is not named": (
        "hostile code",
        of_code("raises Own", RAISED), of_code("raises Own", ("failed", "unexpected", "an error")),
    ),
    "hostile code tried more often than its policy allows": (
        "hostile code",
        of_code("raises Own", ("retried", *RAISED[1:]), RAISED),
        of_code("raises Own", ("retried", *RAISED[1:]), ("retried", *RAISED[1:]), RAISED),
    ),
    "a finished step that a rule's failure made undone": (
        "hostile code",
        of_code("key raises", ("done", "", ""), state=("failed", "configuration")),
        of_code("key raises", ("done", "", ""), state=("failed", "unexpected")),
    ),
    "a probe that failed": (
        "nothing else suffers",
        of(PROBE), of(PROBE, executions=[Execution("probe/a", "failed", NOON, NOON + 10, "unexpected")]),
    ),
    "a probe that failed beside code that kills": (
        "nothing else suffers",
        of(*THREE_LOSSES, faults=[ALL_KILLED], executions=[POISONED]),
        of(*THREE_LOSSES, *KILLER, faults=[ALL_KILLED], executions=[POISONED, KILLER_DONE]),
    ),
    "a paper that failed for no reason of its own": (
        "nothing else suffers",
        of(attempt("papers/a", 0, 9, outcome="retried", error="storage"), attempt("papers/a", 10, 20)),
        of(attempt("papers/a", 0, 9, outcome="retried", error="unexpected"), attempt("papers/a", 10, 20)),
    ),
    "a callback that is not called": (
        "callbacks",
        of(A, callbacks=[NOON, NOON + 40, NOON + 90]), of(A, callbacks=[NOON, NOON + 90], faults=[]),
    ),
    "a cancellation nobody asked for": (
        "orders",
        of(A, executions=[CANCELLED], orders=[order("cancel", 1, 2)]), of(A, executions=[CANCELLED]),
    ),
    "a lease after a cancellation": (
        "orders",
        of(attempt("a", 5, 10), orders=[order("cancel", 1, 5)]),
        of(attempt("a", 5, 10), orders=[order("cancel", 1, 2)]),
    ),
    "a retry that was not carried out": (
        "orders",
        of(A, executions=[CANCELLED], orders=[order("retry", 1, 2), order("cancel", 1, 3)]),
        of(A, executions=[CANCELLED], orders=[order("cancel", 0, 0.5), order("retry", 1, 2)]),
    ),
    "a key lost that was acknowledged before the backup": (
        "never lost",
        of(A, enqueued={"a": NOON, "b": NOON + 10}, rewinds=[REWIND]),
        of(A, enqueued={"a": NOON, "b": NOON + 4}, rewinds=[REWIND]),
    ),
    "a run without a lease after the restore": (
        "begun once",
        of(A, runs=[run(A, 0, 4), run(B, 6, 7)], rewinds=[REWIND]),
        of(A, runs=[run(A, 0, 4), run(B, 26, 27)], rewinds=[REWIND]),
    ),
    **periodic_cases.CASES,
}  # fmt: skip


def test_every_rule_is_shown_to_find_what_is_planted() -> None:
    histories = [planted for _, _, planted in CASES.values()]
    silent = [rule for rule in RULES if not any(list(rule(history)) for history in histories)]
    assert silent == []


@pytest.mark.parametrize(("rule", "clean", "planted"), CASES.values(), ids=CASES.keys())
def test_a_clean_history_passes_and_a_planted_violation_is_found_and_named(
    rule: str, clean: History, planted: History
) -> None:
    assert check(clean) == []
    assert rules(planted) == {rule}
