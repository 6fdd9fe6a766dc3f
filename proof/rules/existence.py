"""Nothing is lost, nothing is done twice, and a lease is the only right to run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from proof.records import FINAL, Attempt, History
from proof.rules.spans import surely_from
from proof.rules.violation import Violation


def never_lost(history: History) -> Iterator[Violation]:
    """Every key whose enqueue was acknowledged has one execution, in one final state. What was acknowledged
    after a backup that was restored later may be gone."""
    rows = Counter(execution.key for execution in history.executions)
    for key, acknowledged in history.enqueued.items():
        taken_back = any(r.backup <= acknowledged <= r.restored for r in history.rewinds)
        if rows[key] != 1 and not (taken_back and not rows[key]):
            yield Violation("never lost", f"{key} was enqueued and has {rows[key]} executions")
    for execution in history.executions:
        if execution.state not in FINAL:
            yield Violation("never lost", f"{execution.key} is still {execution.state}")
    if history.leases_left:
        yield Violation("never lost", f"{history.leases_left} leases are left when all is over")


def never_finished_twice(history: History) -> Iterator[Violation]:
    """A step of an execution is done once, and a finished execution does not run again."""
    done = Counter((a.key, a.phase, a.step) for a in history.attempts if a.outcome == "done")
    for (key, phase, step), times in done.items():
        if times > 1:
            yield Violation("never finished twice", f"{key} {phase}/{step} is done {times} times")
    finished = {e.key: e.finished for e in history.executions if e.state == "done" and e.finished}
    done_keys = {key for key, _, _ in done}
    for key in finished.keys() - done_keys:
        yield Violation("never finished twice", f"{key} is done and no attempt says so")
    for attempt in history.attempts:
        if attempt.leased > finished.get(attempt.key, attempt.leased):
            yield Violation("never finished twice", f"{attempt.key} was leased after it was done")


def begun_once(history: History) -> Iterator[Violation]:
    """A lease begins once, however often its message is delivered, and nothing runs without a lease."""
    starts = Counter(run.lease for run in history.runs)
    for lease, times in starts.items():
        if times > 1:
            yield Violation("begun once", f"lease {lease} was begun {times} times")
    known = {attempt.lease for attempt in history.attempts}
    for run in history.runs:
        if run.lease not in known:
            yield Violation("begun once", f"{run.key} ran on {run.worker} without a lease")


def one_lease_at_a_time(history: History) -> Iterator[Violation]:
    """Two leases of one execution do not overlap."""
    by_key: defaultdict[str, list[Attempt]] = defaultdict(list)
    for attempt in history.attempts:
        by_key[attempt.key].append(attempt)
    for key, attempts in by_key.items():
        for earlier, later in pairwise(sorted(attempts, key=lambda a: a.leased)):
            if earlier.ended > surely_from(later, history.faults):
                text = f"{key} was leased to {later.worker} while {earlier.worker} held it"
                yield Violation("one lease at a time", text)
