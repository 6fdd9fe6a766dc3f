"""How hostile code must end, that nothing else suffers from it, and that a lease is lost for a reason."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from proof.records import Attempt, Execution, History
from proof.rules.violation import Violation
from proof.ways import FLAT, Expected, way_of

FROM_OUTSIDE = frozenset({("lost", ""), ("lost", "poison"), ("interrupted", ""), ("cancelled", "")})
"""Ends of an attempt that are not the code's doing."""

KINDS_OF_PAPERS = frozenset(
    {"", "poison", "server_error", "storage", "network", "timeout", "rate_limited", "http_error"}
)
KINDS_OF_PROBES = frozenset({"", "poison", "storage"})
"""Kinds of errors that attempts of blameless code may have: of their server, their disk, their database."""

FLOWS = {"probe": KINDS_OF_PROBES, "papers": KINDS_OF_PAPERS, "patient": KINDS_OF_PROBES}

LOSSES_OF_POISON = 3
NOTICED_SECONDS = 1.0
CALLBACK_SECONDS = 60.0
"""Seconds within which the callbacks of a flow are called again: they are due every 5 s."""


def hostile_code_ends_as_it_should(history: History) -> Iterator[Violation]:
    """Hostile code ends with the kind of error its misdeed stands for, in a message that names it, no more
    often than its retry policy allows; a rule that fails leaves the finished step done."""
    attempts = _by_key(history)
    for execution in _of_flow(history, "hostile"):
        expected = FLAT[way_of(execution.key)]
        yield from _wrong_attempts(execution.key, expected, attempts[execution.key])
        yield from _wrong_state(execution, expected, attempts[execution.key])


def _wrong_attempts(key: str, expected: Expected, attempts: Sequence[Attempt]) -> Iterator[Violation]:
    for attempt in attempts:
        end = attempt.outcome, attempt.error
        if end not in expected.attempts | FROM_OUTSIDE:
            yield Violation("hostile code", f"{key} ended as {attempt.outcome} {attempt.error}".strip())
        elif attempt.error and attempt.error != "poison" and not _says(expected, attempt.message):
            text = f"{key}: the message does not say {expected.says!r}: {attempt.message[:80]!r}"
            yield Violation("hostile code", text)
    failures = sum(attempt.outcome in ("retried", "failed") for attempt in attempts)
    if failures > expected.most:
        yield Violation("hostile code", f"{key} failed {failures} times, {expected.most} are allowed")


def _says(expected: Expected, message: str) -> bool:
    return bool(message.strip()) and expected.says in message


def _wrong_state(
    execution: Execution, expected: Expected, attempts: Sequence[Attempt]
) -> Iterator[Violation]:
    allowed = expected.states | (_POISONED if _losses(attempts) >= LOSSES_OF_POISON else frozenset())
    if (execution.state, execution.error) not in allowed | {("cancelled", "")}:
        text = f"{execution.key} is {execution.state} {execution.error}".strip()
        yield Violation("hostile code", text)


_POISONED = frozenset({("failed", "poison")})


def nothing_else_suffers(history: History) -> Iterator[Violation]:
    """Work that does nothing wrong is done, or cancelled by a person: a probe fails only if faults took its
    worker three times, and never because it ran beside code that ends its process; a paper fails only for
    its server, the network or the storage."""
    attempts = _by_key(history)
    for flow, kinds in FLOWS.items():
        for execution in _of_flow(history, flow):
            for attempt in attempts[execution.key]:
                if attempt.error not in kinds:
                    yield Violation("nothing else suffers", f"{attempt.key} ended as {attempt.error}")
    killers = _killers(history.attempts)
    for execution in (*_of_flow(history, "probe"), *_of_flow(history, "patient")):
        yield from _wrongly_failed(execution, attempts[execution.key], killers)


def _wrongly_failed(
    execution: Execution, attempts: Sequence[Attempt], killers: Sequence[Attempt]
) -> Iterator[Violation]:
    if execution.state not in ("failed", "skipped"):
        return
    lost = [attempt for attempt in attempts if attempt.outcome == "lost"]
    beside = any(_overlap(attempt, killer) for attempt in lost for killer in killers)
    if execution.error != "poison" or len(lost) < LOSSES_OF_POISON or beside:
        text = f"{execution.key} is {execution.state} {execution.error} after {len(lost)} losses"
        yield Violation("nothing else suffers", text + (" beside code that kills" if beside else ""))


def lost_for_a_reason(history: History) -> Iterator[Violation]:
    """A lease is lost only with a worker that a fault or hostile code took, froze or cut off; code that hangs
    loses its own when its process restarts to be rid of it."""
    killers = _killers(history.attempts)
    for attempt in history.attempts:
        taken = _taken_by_a_fault(attempt, history) or any(_overlap(attempt, one) for one in killers)
        if attempt.outcome == "lost" and not taken and not _hangs(attempt):
            ran = attempt.ended - attempt.started
            text = f"{attempt.key} was lost on {attempt.worker} after {ran:.1f} s without a cause"
            yield Violation("lost for a reason", text)


def callbacks_continue(history: History) -> Iterator[Violation]:
    """A flow's callbacks are called on time though those of another flow raise."""
    for earlier, later in pairwise(history.callbacks):
        if later - earlier > CALLBACK_SECONDS + _trouble(history, earlier, later):
            yield Violation("callbacks", f"a flow's callback was not called for {later - earlier:.1f} s")


def _trouble(history: History, since: float, until: float) -> float:
    """Seconds of faults in this time."""
    spans = [(max(since, f.began), min(until, f.ended + f.bound)) for f in history.faults]
    return sum(max(0.0, end - begin) for begin, end in spans)


def _taken_by_a_fault(attempt: Attempt, history: History) -> bool:
    return any(
        fault.leases and (fault.leases == "any" or attempt.worker.startswith(f"{fault.leases}@"))
        and fault.began - NOTICED_SECONDS <= attempt.ended and attempt.started <= fault.ended + fault.bound
        for fault in history.faults
    )  # fmt: skip


def _killers(attempts: Iterable[Attempt]) -> list[Attempt]:
    """The attempts of code that ended its process."""
    hostile = (a for a in attempts if a.key.startswith("hostile/") and a.outcome == "lost")
    return [attempt for attempt in hostile if FLAT[way_of(attempt.key)].kills]


def _hangs(attempt: Attempt) -> bool:
    return attempt.key.startswith("hostile/") and FLAT[way_of(attempt.key)].hangs


def _overlap(one: Attempt, other: Attempt) -> bool:
    return one.worker == other.worker and one.started <= other.ended and other.started <= one.ended


def _losses(attempts: Iterable[Attempt]) -> int:
    return Counter(attempt.outcome for attempt in attempts)["lost"]


def _by_key(history: History) -> defaultdict[str, list[Attempt]]:
    by_key: defaultdict[str, list[Attempt]] = defaultdict(list)
    for attempt in history.attempts:
        by_key[attempt.key].append(attempt)
    return by_key


def _of_flow(history: History, flow: str) -> list[Execution]:
    return [execution for execution in history.executions if execution.key.startswith(f"{flow}/")]
