"""The rules of the proof: pure functions of what was recorded during a run; none imports the code it
checks.

Every rule is sound: it counts only what is certain, so that what it reports is a violation. Where clocks,
locks or messages leave doubt, the tolerance is one of the constants below. A rule is a function from a
`History` to violations; to add one, add it to `RULES`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from proof.limit_values import LimitValues
from proof.records import FINAL, Attempt, Fault, History, Rate, Request, Run

LOOK_SECONDS = 1.0
"""Seconds after its start by which a decision has read the values of the limits."""

DECIDE_SECONDS = 1.0
"""Seconds between the time a decision records, which is when it takes the lock, and what it reads after
that; an ending that finds the lock busy may continue without it in between. So a lease counts from when it
was begun by message, which is after it was written; one that was assigned as begun counts from this much
later."""

SERVER_SECONDS = 0.25
"""Seconds by which the paper server may be late to record that a request has ended."""

ORDER_SECONDS = 2.0
"""Seconds high-priority work that could start may wait while younger low-priority work starts."""

ORDER_SECONDS_IN_TROUBLE = 30.0
"""The same while messages may be lost: a lease whose message is lost is granted again after seconds, and
that message may be lost too."""

AFTERMATH_SECONDS = 8.0
"""Seconds after the end of a fault during which leases may still wait for messages lost in it."""

LOSES_NO_MESSAGE = frozenset({"two beats", "no beat", "deliver again and late", "full disk"})

RATE_SECONDS = 0.05
"""Seconds by which a start may seem too early: one clock, read in two places."""

FREEZE = "freeze workers"


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise: which one, and the evidence."""

    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Span:
    """Something that certainly ran from `start` to `end`, and was admitted at `admitted`."""

    key: str
    start: float
    end: float
    admitted: float


Rule = Callable[[History], Iterable[Violation]]


def check(history: History) -> list[Violation]:
    """All violations of all rules."""
    return [violation for rule in RULES for violation in rule(history)]


def never_lost(history: History) -> Iterator[Violation]:
    """Every key whose enqueue was acknowledged has one execution, in one final state."""
    rows = Counter(execution.key for execution in history.executions)
    for key in history.enqueued:
        if rows[key] != 1:
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
            if earlier.ended > _surely_from(later, history.faults):
                text = f"{key} was leased to {later.worker} while {earlier.worker} held it"
                yield Violation("one lease at a time", text)


def caps_in_leases(history: History) -> Iterator[Violation]:
    """No lease is granted beyond a cap of the fleet, a phase or a key. Counted from the database."""
    spans = [(a, _leased_span(a, history.faults)) for a in history.attempts]
    yield from _beyond_caps("cap, in leases", spans, LimitValues(history.edits))


def caps_in_runs(history: History) -> Iterator[Violation]:
    """No more probes run at once than a cap allows, by their own traces. A run that lost its lease counts
    until then."""
    yield from _beyond_caps("cap, in runs", _run_spans(history), LimitValues(history.edits))


def caps_in_requests(history: History) -> Iterator[Violation]:
    """No more requests are open at a server than the cap of its key allows, by the server's own log. A
    request of a step that lost its lease counts until then."""
    spans = [(a, _request_span(r, a)) for r, a in _made_by(history)]
    yield from _beyond_caps("cap, in requests", spans, LimitValues(history.edits), SERVER_SECONDS)


def reserve_is_for_high(history: History) -> Iterator[Violation]:
    """Work below high priority does not use the reserved slots, counted in leases and in runs."""
    limit_values = LimitValues(history.edits)
    leased = [(a, _leased_span(a, history.faults)) for a in history.attempts]
    for spans in (leased, _run_spans(history)):
        below = [(attempt, span) for attempt, span in spans if attempt.priority != "high"]
        yield from _beyond("reserve", below, limit_values.open_to_all)


def budget_is_kept(history: History) -> Iterator[Violation]:
    """No start takes the requests of a UTC day beyond the budget in force when it was decided."""
    limit_values = LimitValues(history.edits)
    for name in limit_values.with_budget():
        spent: Counter[str] = Counter()
        for attempt in sorted(history.attempts, key=lambda a: a.leased):
            if name in attempt.names and attempt.cost:
                day = _day(attempt.leased)
                spent[day] += attempt.cost
                most = limit_values.most_budget(name, attempt.leased, attempt.leased + LOOK_SECONDS)
                if spent[day] > most:
                    text = f"{attempt.key} brought {name} to {spent[day]} of {most:g} on {day}"
                    yield Violation("budget", text)


def usage_adds_up(history: History) -> Iterator[Violation]:
    """The spending in the database equals the cost of its attempts, each counted once."""
    cost: Counter[tuple[str, str]] = Counter()
    for attempt in history.attempts:
        for name in attempt.names:
            cost[_day(attempt.leased), name] += attempt.cost
    for usage in history.usage:
        spent = cost[usage.day, usage.name]
        if usage.spent != spent:
            text = f"{usage.name} on {usage.day}: {usage.spent} spent, attempts cost {spent}"
            yield Violation("usage", text)


def high_goes_first(history: History) -> Iterator[Violation]:
    """No low-priority work starts while older high-priority work of its phase waits that would be admitted
    too: it has no other keys and is no more expensive. Counted beyond a tolerance, which is wider during
    faults."""
    for low, high, since in comparable(history):
        waited = low.leased - since
        patience = _patience(since, low.leased, history.faults)
        if low.leased < high.leased and waited > patience:
            text = f"{low.key} started while {high.key} had waited {waited:.1f} s"
            yield Violation("order", text)


def comparable(history: History) -> Iterator[tuple[Attempt, Attempt, float]]:
    """Low-priority work, with the older high-priority work that waited when it was enqueued and must start
    first, and since when that waited."""
    created = {execution.key: execution.created for execution in history.executions}
    firsts = [a for a in _first_attempts(history.attempts) if a.key in created]
    highs = [attempt for attempt in firsts if attempt.priority == "high"]
    for low in (attempt for attempt in firsts if attempt.priority == "low"):
        for high in highs:
            if created[high.key] < created[low.key] < high.leased and _alike(high, low):
                yield low, high, created[high.key]


def every_request_has_an_attempt(history: History) -> Iterator[Violation]:
    """A paper is requested no more often than its attempts account for."""
    fetches = Counter(a.key for a in history.attempts if a.step == "fetch")
    for key, requests in Counter(request.key for request in history.requests).items():
        if requests > fetches[key]:
            text = f"{key} was requested {requests} times by {fetches[key]} attempts"
            yield Violation("requests", text)


def rates_are_kept(history: History) -> Iterator[Violation]:
    """Starts under a limit conform to its rate (GCRA), measured where work begins."""
    for rate in history.rates:
        starts = sorted(a.started for a in history.attempts if rate.limit in a.names)
        for early in too_early(starts, rate):
            yield Violation("rate", f"a start under {rate.limit} came {early:.3f} s too early")


def too_early(starts: Iterable[float], rate: Rate, tolerance: float = RATE_SECONDS) -> list[float]:
    """By how many seconds each start that does not conform was too early; the starts are in order.

    At most `burst + t * starts / period` starts conform in any span of t seconds.
    """
    interval = rate.period / rate.starts
    clock, early = float("-inf"), []
    for start in starts:
        allowed = clock - (rate.burst - 1) * interval
        if start + tolerance < allowed:
            early.append(allowed - start)
        clock = max(clock, start) + interval
    return early


RULES: tuple[Rule, ...] = (
    never_lost,
    never_finished_twice,
    begun_once,
    one_lease_at_a_time,
    caps_in_leases,
    caps_in_runs,
    caps_in_requests,
    reserve_is_for_high,
    budget_is_kept,
    usage_adds_up,
    high_goes_first,
    every_request_has_an_attempt,
    rates_are_kept,
)


# Counting what runs at the same time

Cap = Callable[[str, float, float], float]
Spans = Sequence[tuple[Attempt, Span]]


def _beyond_caps(
    rule: str, spans: Spans, limit_values: LimitValues, slack: float = 0.0
) -> Iterator[Violation]:
    return _beyond(rule, spans, limit_values.most_running, slack)


def _beyond(rule: str, spans: Spans, cap: Cap, slack: float = 0.0) -> Iterator[Violation]:
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


def _leased_span(attempt: Attempt, faults: Iterable[Fault]) -> Span:
    return Span(attempt.key, _surely_from(attempt, faults), attempt.ended, attempt.leased)


def _surely_from(attempt: Attempt, faults: Iterable[Fault]) -> float:
    """From when it was certainly leased; if a process was frozen while it may have been deciding, from when
    that process resumed."""
    if attempt.started > attempt.leased:
        return attempt.started
    frozen = (f for f in faults if f.kind == FREEZE)
    woke = [f.ended for f in frozen if 0 <= f.began - attempt.leased < DECIDE_SECONDS]
    return min(attempt.ended, max([attempt.leased, *woke]) + DECIDE_SECONDS)


def _run_spans(history: History) -> list[tuple[Attempt, Span]]:
    attempts = {attempt.lease: attempt for attempt in history.attempts}
    known = [(attempts[run.lease], run) for run in history.runs if run.lease in attempts]
    return [(attempt, _run_span(run, attempt)) for attempt, run in known]


def _run_span(run: Run, attempt: Attempt) -> Span:
    return Span(run.key, run.start, _end_of(run.end, attempt), attempt.leased)


def _end_of(recorded: float | None, attempt: Attempt) -> float:
    """By its own trace; with its lease's end if it recorded none, or if it lost the lease and continued."""
    if recorded is None:
        return attempt.ended
    return min(recorded, attempt.ended) if attempt.outcome == "lost" else recorded


def _made_by(history: History) -> Iterator[tuple[Request, Attempt]]:
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


def _request_span(request: Request, attempt: Attempt) -> Span:
    return Span(request.key, request.start, _end_of(request.end, attempt), attempt.leased)


# Order


def _first_attempts(attempts: Iterable[Attempt]) -> list[Attempt]:
    firsts: dict[str, Attempt] = {}
    for attempt in sorted(attempts, key=lambda a: a.leased):
        firsts.setdefault(attempt.key, attempt)
    return list(firsts.values())


def _alike(high: Attempt, low: Attempt) -> bool:
    """Whether all that admits the low-priority one would admit the high-priority one."""
    fewer_keys = set(high.limits) <= set(low.limits)
    return high.phase == low.phase and fewer_keys and high.cost <= low.cost


def _patience(since: float, until: float, faults: Iterable[Fault]) -> float:
    losing = (fault for fault in faults if fault.kind not in LOSES_NO_MESSAGE)
    trouble = any(f.began <= until and f.ended + AFTERMATH_SECONDS >= since for f in losing)
    return ORDER_SECONDS_IN_TROUBLE if trouble else ORDER_SECONDS


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).date().isoformat()
