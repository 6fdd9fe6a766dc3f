"""Caps of the fleet, of phases and of keys, counted in leases, in runs and in requests; and the reserve."""

from __future__ import annotations

from collections.abc import Iterator

from proof.limit_values import LimitValues
from proof.records import History
from proof.rules.spans import beyond, beyond_caps, leased_span, made_by, request_span, run_spans
from proof.rules.violation import Violation

SERVER_SECONDS = 0.25
"""Seconds by which the paper server may be late to record that a request has ended."""


def caps_in_leases(history: History) -> Iterator[Violation]:
    """No lease is granted beyond a cap of the fleet, a phase or a key. Counted from the database."""
    spans = [(a, leased_span(a, history.faults)) for a in history.attempts]
    yield from beyond_caps("cap, in leases", spans, LimitValues(history.edits))


def caps_in_runs(history: History) -> Iterator[Violation]:
    """No more probes run at once than a cap allows, by their own traces. A run that lost its lease counts
    until then."""
    yield from beyond_caps("cap, in runs", run_spans(history), LimitValues(history.edits))


def caps_in_requests(history: History) -> Iterator[Violation]:
    """No more requests are open at a server than the cap of its key allows, by the server's own log. A
    request of a step that lost its lease counts until then."""
    spans = [(a, request_span(r, a)) for r, a in made_by(history)]
    yield from beyond_caps("cap, in requests", spans, LimitValues(history.edits), SERVER_SECONDS)


def reserve_is_for_high(history: History) -> Iterator[Violation]:
    """Work below high priority does not use the reserved slots, counted in leases and in runs."""
    limit_values = LimitValues(history.edits)
    leased = [(a, leased_span(a, history.faults)) for a in history.attempts]
    for spans in (leased, run_spans(history)):
        below = [(attempt, span) for attempt, span in spans if attempt.priority != "high"]
        yield from beyond("reserve", below, limit_values.open_to_all)
