"""Checks that many requests share: one thread runs a check at a time, and its answer serves for a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from django.db import connections

FRESH_SECONDS = 1.0
"""How long an answer serves further requests."""

NO_ANSWER = "does not answer"


class SharedCheck:
    """A check that returns a problem, or nothing if all is well. Safe to ask from many threads."""

    def __init__(self, check: Callable[[], str]) -> None:
        self._check = check
        self._changed = threading.Condition()
        self._running = False
        self._answer, self._answered_at = "", float("-inf")

    def begin(self) -> None:
        """Start the check, unless it runs or its answer is fresh."""
        with self._changed:
            if self._running or self._is_fresh():
                return
            self._running = True
        threading.Thread(target=self._run, name="health check", daemon=True).start()

    def answer(self, deadline: float) -> str:
        """The problem found; `NO_ANSWER` if the check has not ended by the deadline (`time.monotonic()`)."""
        with self._changed:
            left = max(0.0, deadline - time.monotonic())
            return self._answer if self._changed.wait_for(self._is_fresh, left) else NO_ANSWER

    def _is_fresh(self) -> bool:
        return time.monotonic() - self._answered_at < FRESH_SECONDS

    def _run(self) -> None:
        answer = NO_ANSWER
        try:
            answer = self._check()
        finally:
            connections.close_all()
            with self._changed:
                self._answer, self._answered_at, self._running = answer, time.monotonic(), False
                self._changed.notify_all()


def answers(checks: Mapping[str, SharedCheck], names: Iterable[str], seconds: float) -> dict[str, str]:
    """The answers of these checks, which run at once and get so many seconds in all."""
    deadline = time.monotonic() + seconds
    chosen = {name: checks[name] for name in names}
    for check in chosen.values():
        check.begin()
    return {name: check.answer(deadline) for name, check in chosen.items()}
