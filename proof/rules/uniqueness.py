"""What there may be one of runs once at a time, and no call for it comes to nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from proof.records import Attempt, History
from proof.rules.spans import DECIDE_SECONDS, surely_from
from proof.rules.standstill import excused_until
from proof.rules.violation import Violation

EXACT = 0.01


def one_at_a_time(history: History) -> Iterator[Violation]:
    """Of what is unique until it has ended, no execution is leased while another of the same thing is."""
    by_thing: defaultdict[str, dict[str, list[Attempt]]] = defaultdict(dict)
    for attempt in history.attempts:
        if attempt.key.startswith("patient/skip-"):
            by_thing[attempt.key.partition(".")[0]].setdefault(attempt.key, []).append(attempt)
    for thing, executions in by_thing.items():
        spans = sorted(
            (min(surely_from(a, history.faults) for a in attempts), max(a.ended for a in attempts), key)
            for key, attempts in executions.items()
        )
        for (_, ended, one), (began, _, other) in pairwise(spans):
            if began < ended - EXACT:
                yield Violation("uniqueness", f"{one} and {other} ran at once, and {thing} is unique")


def no_call_comes_to_nothing(history: History) -> Iterator[Violation]:
    """What a call got is there and had not ended before it, and where only what waits counts, it began after
    the call. What was acknowledged after a backup that was restored later may be gone."""
    executions = {execution.key: execution for execution in history.executions}
    began: dict[str, float] = {}
    for attempt in history.attempts:
        began[attempt.key] = min(attempt.started, began.get(attempt.key, attempt.started))
    for call in history.calls:
        got = executions.get(call.got)
        if history.was_taken_back(call.done) or history.was_taken_back(call.began):
            continue
        if got is None:
            yield Violation("uniqueness", f"a call for {call.thing} got {call.got}, which is not there")
        elif got.finished is not None and _surely_before(got.finished, call.began, history):
            yield Violation("uniqueness", f"a call for {call.thing} got {call.got}, which had ended")
        elif call.rule != "skip" and _surely_before(began.get(call.got, call.began), call.began, history):
            yield Violation("uniqueness", f"a call for {call.thing} got {call.got}, which had begun")


def _surely_before(recorded: float, moment: float, history: History) -> bool:
    """Whether an end or a start was committed by then, which records when its process took it up: a fault may
    have held that up."""
    return max(recorded + DECIDE_SECONDS, excused_until(history.faults, recorded, moment)) < moment
