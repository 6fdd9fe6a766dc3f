"""Work continues: a bound after the end of each fault, for the fleet and for the work lost in the fault.

A pause is excused while a fault lasts that stops all work, and for the fault's own bound after its end; one
that takes a part of the fleet excuses a pause for its bound from its beginning on, however long it lasts. The
bound of a pause is the latest of these among the faults that began before it was over. Overlapping faults
therefore lengthen a pause by their own durations and no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from proof.records import Attempt, Fault, History, is_periodic
from proof.rules.violation import Violation

QUIET_BOUND = 8.0
"""Seconds without a start that need no fault: caps lowered to a few slots, and steps of seconds."""


def work_continues(history: History) -> Iterator[Violation]:
    """Work never stands still for longer than the bound of the faults that excuse it."""
    calm = history.calm_keys
    counted = (each for each in history.attempts if each.key not in calm and not is_periodic(each.key))
    starts = sorted(attempt.started for attempt in counted)
    until = max(
        (e.created for e in history.executions if e.key not in calm and not is_periodic(e.key)), default=0.0
    )
    for earlier, later in pairwise(starts):
        allowed = max(earlier + QUIET_BOUND, excused_until(history.faults, earlier, later))
        if earlier < until and later > allowed:
            text = f"nothing started for {later - earlier:.1f} s, {later - allowed:.1f} s beyond the bound"
            yield Violation("standstill", f"{text}{_after(history.faults, earlier, later)}")


def lost_work_waits_again(history: History) -> Iterator[Violation]:
    """A lease lost with its worker ends within the bound of the faults that cost it."""
    for fault in history.faults:
        for attempt in lost_with(fault, history.attempts):
            allowed = excused_until(history.faults, fault.began, attempt.ended)
            if attempt.ended > max(allowed, fault.over):
                late = attempt.ended - fault.began
                text = f"the lease of {attempt.key} ended {late:.1f} s after {fault.kind} of {fault.target}"
                yield Violation("standstill", text)


def commands_are_accepted(history: History) -> Iterator[Violation]:
    """No command of an operator is refused for longer than the faults excuse that keep the database away."""
    for refusal in history.refusals:
        allowed = excused_until(history.faults, refusal.began, refusal.ended)
        if refusal.ended > max(refusal.began + QUIET_BOUND, allowed):
            seconds = refusal.ended - refusal.began
            yield Violation("commands", f"refused for {seconds:.1f} s: {refusal.words[:200]}")


def lost_with(fault: Fault, attempts: Sequence[Attempt]) -> Iterator[Attempt]:
    """The attempts that were under way on the target when the fault came, and were lost."""
    for attempt in attempts:
        under_way = attempt.started <= fault.began < attempt.ended
        on_it = fault.leases == "any" or attempt.worker.startswith(f"{fault.leases}@")
        if attempt.outcome == "lost" and under_way and fault.leases and on_it:
            yield attempt


def excused_until(faults: Sequence[Fault], since: float, until: float) -> float:
    """The time by which a pause from `since` to `until` must be over."""
    there = (f for f in faults if f.began <= until and f.over >= since)
    return max((fault.over for fault in there), default=since)


def _after(faults: Sequence[Fault], since: float, until: float) -> str:
    near = [f for f in faults if f.began <= until and f.over >= since - QUIET_BOUND]
    return f", near {', '.join(f'{f.kind} ({f.target})' for f in near)}" if near else ""
