"""When a failed step is retried: a default policy for each error kind, and the backoff formula.

Pure: no database, no clock, no Celery. The wait goes into `run_after`, so a delay survives any
restart and is never held by the broker.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from queuemgr.base.column_sizes import MAX_INTEGER
from queuemgr.base.errors import ConfigurationError

MAX_DELAY = 366 * 24 * 3600
"""Longest delay of a retry policy in seconds: a year."""

_rng = random.SystemRandom()


@dataclass(frozen=True)
class Policy:
    """How many attempts an error kind gets, and the seconds to wait between them: `base`, doubled after
    each attempt up to `ceiling`, plus a random part up to `jitter`. `meaning` is for people."""

    max_attempts: int
    base: float = 0.0
    ceiling: float = 0.0
    jitter: float = 0.0
    meaning: str = ""

    def checked(self) -> Policy:
        """This policy. Raises `ConfigurationError` for numbers that cannot be counted or waited for."""
        waits = (self.base, self.ceiling, self.jitter)
        if not 1 <= self.max_attempts <= MAX_INTEGER or not all(0 <= wait <= MAX_DELAY for wait in waits):
            raise ConfigurationError(
                f"{self}: max_attempts is at least 1, and a delay between 0 and {MAX_DELAY} s (a year)"
            )
        return self


def no_retry(meaning: str) -> Policy:
    """A policy of one attempt, for failures another attempt would only repeat."""
    return Policy(max_attempts=1, meaning=meaning)


POLICIES: dict[str, Policy] = {
    "network": Policy(6, 5, 600, 5, "connection refused, reset or cut off"),
    "timeout": Policy(4, 10, 600, 5, "the other side took longer than allowed"),
    "rate_limited": Policy(12, 15, 3600, 10, "429: the other side asked us to slow down"),
    "server_error": Policy(6, 10, 900, 10, "5xx, 408 or 425 from the other side"),
    "bad_answer": Policy(3, 5, 60, 5, "the answer could not be used: empty, broken, not the schema"),
    "storage": Policy(5, 10, 600, 5, "a file could not be written or read"),
    "crashed": Policy(2, 5, 60, 5, "a child process died; retried once, then the input is at fault"),
    "unexpected": Policy(3, 60, 900, 15, "an exception without an error kind: probably a bug"),
    "not_found": no_retry("the other side has no such thing"),
    "too_large": no_retry("larger than the configured limit"),
    "resource_limit": no_retry("it took more time or memory than allowed"),
    "http_error": no_retry("4xx: the other side refuses this request"),
    "quota": no_retry("the account's quota is used up"),
    "bad_input": no_retry("what it was enqueued with cannot be used"),
    "bad_payload": Policy(
        10, 5, 300, 5, "this release of the task takes other arguments: another may follow"
    ),
    "bad_request": no_retry("the request itself is wrong"),
    "over_reserved": no_retry("the step needed more requests than it had reserved"),
    "configuration": no_retry("a rule of its flow fails, or its step is gone: correct that, then retry"),
    "unknown_step": no_retry("no live worker had its flow or step for SLUICE_UNKNOWN_STEP_SECONDS"),
    "poison": no_retry("its worker died or froze with it three times"),
}
"""Default policies of the error kinds any flow may use; those of one flow are in its `error_kinds`."""

MAX_LOSSES = 3
"""Attempts that may end with their worker before the work is called poison."""

MAX_LOSSES_WITH_NEIGHBOURS = 10
"""As `MAX_LOSSES`, when another execution was lost with it every time and may be the cause."""


def loss_delay(lost: int, lease_seconds: float) -> float:
    """Seconds of delay after loss number `lost`: none first, then random within a lease, so that
    executions lost together are retried separately."""
    return 0.0 if lost < MAX_LOSSES else _rng.uniform(0.0, lease_seconds)


def exponential(base: float, ceiling: float, doublings: int) -> float:
    """`min(ceiling, base * 2**doublings)` seconds; the exponent is capped so that it cannot overflow."""
    return min(ceiling, base * 2.0 ** min(doublings, 32))


def backoff(policy: Policy, attempt: int) -> float:
    """Seconds before attempt `attempt + 1`."""
    return exponential(policy.base, policy.ceiling, attempt - 1)


def retry_delay(policy: Policy, attempt: int, *, retry_after: float | None = None) -> float | None:
    """Seconds from failure number `attempt` (from 1) at a step to its retry; None for no retry.

    A server's `retry_after` is a minimum and replaces the backoff; jitter is only ever added.
    """
    if attempt >= policy.max_attempts:
        return None
    wait = backoff(policy, attempt) if retry_after is None else max(0.0, retry_after)
    return wait + _rng.uniform(0.0, policy.jitter)
