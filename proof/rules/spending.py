"""Budgets, the usage in the database, and the requests a server saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from proof.limit_values import LimitValues
from proof.records import Attempt, History
from proof.rules.spans import LOOK_SECONDS
from proof.rules.violation import Violation


def budget_is_kept(history: History) -> Iterator[Violation]:
    """No start takes the requests of a UTC day beyond the budget in force when it was decided."""
    limit_values = LimitValues(history.edits)
    for name in limit_values.with_budget():
        spent: Counter[str] = Counter()
        for attempt in sorted(history.attempts, key=lambda a: a.leased):
            if name in attempt.names and attempt.cost:
                day = _day(attempt)
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
            cost[_day(attempt), name] += attempt.cost
    for usage in history.usage:
        spent = cost[usage.day, usage.name]
        if usage.spent != spent:
            text = f"{usage.name} on {usage.day}: {usage.spent} spent, attempts cost {spent}"
            yield Violation("usage", text)


def every_request_has_an_attempt(history: History) -> Iterator[Violation]:
    """A paper is requested no more often than its attempts account for."""
    fetches = Counter(a.key for a in history.attempts if a.step == "fetch")
    for key, requests in Counter(request.key for request in history.requests).items():
        if requests > fetches[key]:
            text = f"{key} was requested {requests} times by {fetches[key]} attempts"
            yield Violation("requests", text)


def _day(attempt: Attempt) -> str:
    return attempt.day or datetime.fromtimestamp(attempt.leased, UTC).date().isoformat()
