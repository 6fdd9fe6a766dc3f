"""From when until when something certainly ran, and what ran at the same time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from proof.limit_values import LimitValues
from proof.records import Attempt, Fault, History, Request, Run
from proof.rules.violation import Violation

LOOK_SECONDS = 1.0
"""Seconds after its start by which a decision has read the values of the limits."""

DECIDE_SECONDS = 1.0
"""Seconds between the time a decision records, which is when it takes the lock, and what it reads after
that; an ending that finds the lock busy may continue without it in between. So a lease counts from when it
was begun by message, which is after it was written; one that was assigned as begun counts from this much
later."""

EARLY_SECONDS = 0.2
"""Seconds after it was assigned that a lease under a rate may start: it is granted that early."""

FREEZES = frozenset({"freeze workers", "suspend everything", "cut off host", "lose host"})
"""Faults after which a process continues where it was stopped, or is not heard for a while."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that certainly ran from `start` to `end`, and was admitted at `admitted`."""

    key: str
    start: float
    end: float
    admitted: float


Cap = Callable[[str, float, float], float]
Spans = Sequence[tuple[Attempt, Span]]


def beyond_caps(
    rule: str, spans: Spans, limit_values: LimitValues, slack: float = 0.0
) -> Iterator[Violation]:
    return beyond(rule, spans, limit_values.most_running, slack)


def beyond(rule: str, spans: Spans, cap: Cap, slack: float = 0.0) -> Iterator[Violation]:
    """The starts beyond the cap of each limit; the cap applies from the last admission on."""
    by_limit: defaultdict[str, list[Span]] = defaultdict(list)
    for attempt, span in spans:
        for name in attempt.names:
            by_limit[name].append(span)
    for name, those in by_limit.items():
        for span, together in _together(those, slack):
            decided = max(one.admitted for one in together)
            most = cap(name, decided, decided + LOOK_SECONDS)
            if len(together) > most:
                text = f"{span.key} made {len(together)} under {name}, where {most:g} may be"
                yield Violation(rule, text)


def _together(spans: Iterable[Span], slack: float) -> Iterator[tuple[Span, list[Span]]]:
    """Each span with all spans that are open when it starts, itself included."""
    under_way: list[Span] = []
    for span in sorted(spans, key=lambda span: span.start):
        under_way = [other for other in under_way if other.end > span.start + slack]
        under_way.append(span)
        yield span, under_way


def leased_span(attempt: Attempt, faults: Iterable[Fault]) -> Span:
    return Span(attempt.key, surely_from(attempt, faults), attempt.ended, attempt.leased)


def surely_from(attempt: Attempt, faults: Iterable[Fault]) -> float:
    """From when it was certainly leased; if a process was frozen while it may have been deciding, from when
    that process resumed."""
    if attempt.started > attempt.leased + (EARLY_SECONDS if attempt.limits else 0.0):
        return attempt.started
    frozen = (f for f in faults if f.kind in FREEZES)
    woke = [f.ended for f in frozen if 0 <= f.began - attempt.leased < DECIDE_SECONDS]
    return min(attempt.ended, max([attempt.leased, *woke]) + DECIDE_SECONDS)


def run_spans(history: History) -> list[tuple[Attempt, Span]]:
    attempts = {attempt.lease: attempt for attempt in history.attempts}
    known = [(attempts[run.lease], run) for run in history.runs if run.lease in attempts]
    return [(attempt, _run_span(run, attempt)) for attempt, run in known]


def _run_span(run: Run, attempt: Attempt) -> Span:
    return Span(run.key, run.start, _end_of(run.end, attempt), attempt.leased)


def _end_of(recorded: float | None, attempt: Attempt) -> float:
    """By its own trace; with its lease's end if it recorded none, or if it lost the lease and continued. A
    lease lost by work that somebody had cancelled ended as cancelled."""
    if recorded is None:
        return attempt.ended
    return min(recorded, attempt.ended) if attempt.outcome in ("lost", "cancelled") else recorded


def made_by(history: History) -> Iterator[tuple[Request, Attempt]]:
    """Each request with the attempt that was running when it came, each attempt once."""
    fetches: defaultdict[str, list[Attempt]] = defaultdict(list)
    for attempt in history.attempts:
        if attempt.step == "fetch":
            fetches[attempt.key].append(attempt)
    seen: set[str] = set()
    for request in sorted(history.requests, key=lambda request: request.start):
        for attempt in fetches[request.key]:
            if attempt.started <= request.start < attempt.ended and attempt.lease not in seen:
                seen.add(attempt.lease)
                yield request, attempt


def request_span(request: Request, attempt: Attempt) -> Span:
    return Span(request.key, request.start, _end_of(request.end, attempt), attempt.leased)
