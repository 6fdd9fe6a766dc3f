"""A batch completes once all its members have ended, and calls what it is to call: once each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from proof.records import Batch, Execution, History
from proof.rules.violation import Violation

EXACT = 0.01
SUCCESSFUL = frozenset({"done", "skipped"})


def each_batch_completes(history: History) -> Iterator[Violation]:
    """Every batch that was acknowledged is there and has completed. What was acknowledged after a backup that
    was restored later may be gone."""
    batches = {batch.name: batch for batch in history.batches}
    for opened in history.opened:
        batch = batches.get(opened.name)
        if batch is None and not history.was_taken_back(opened.acknowledged):
            yield Violation("fan-in", f"{opened.name} was opened and is not there")
        elif batch is not None and batch.completed is None:
            yield Violation("fan-in", f"{opened.name} has not completed")


def callbacks_fire_once(history: History) -> Iterator[Violation]:
    """A batch that has completed has called on_complete once, after its last member, and on_success or
    on_failure, by the ends of its members and of the batches in it: the other of the two only if a person
    cancelled or retried members meanwhile."""
    members: defaultdict[str, list[Execution]] = defaultdict(list)
    for execution in history.executions:
        members[execution.batch].append(execution)
    calls = Counter(e.key.removeprefix("patient/") for e in history.executions)
    created = {e.key.removeprefix("patient/"): e.created for e in history.executions}
    touched = {order.key for order in history.orders if order.verb in ("cancel", "retry")}
    for batch in history.batches:
        if batch.completed is None:
            continue
        family = _family(batch, history)
        its = [member for name in family for member in members[name]]
        due = "on_success" if all(member.state in SUCCESSFUL for member in its) else "on_failure"
        other = "on_failure" if due == "on_success" else "on_success"
        by_hand = any(member.key in touched for member in its)
        fired = {event: calls[f"{batch.name}:{event}"] for event in ("on_complete", due, other)}
        if (fired["on_complete"], fired[due]) != (1, 1) or fired[other] > by_hand:
            yield Violation("fan-in", f"{batch.name} fired {fired}, and {due} was due")
        at = created.get(f"{batch.name}:on_complete")
        last = max((m.finished or 0.0 for m in members[batch.name]), default=0.0)
        if at is not None and at < last - EXACT and not by_hand:
            yield Violation(
                "fan-in", f"{batch.name} completed {last - at:.2f} s before its last member ended"
            )


def _family(batch: Batch, history: History) -> list[str]:
    """Its name and those of the batches in it."""
    return [batch.name, *(each.name for each in history.batches if each.around == batch.name)]
