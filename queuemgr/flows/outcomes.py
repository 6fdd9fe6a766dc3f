"""How a step may end, as values: what the task says, before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Done:
    """The step did its work.

    `context` is merged into what the execution knows; `store` writes the result and runs inside the
    transaction that ends the lease, so both commit or neither; `cost` is what it really cost in
    requests, where that is less than was reserved. `service`: a failure the step could do without,
    which its limits hear of all the same.
    """

    context: Mapping[str, Any] = field(default_factory=dict)
    store: Callable[[], None] | None = None
    cost: int | None = None
    service: Failed | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing to do for this execution, for good."""

    reason: str


@dataclass(frozen=True, slots=True)
class Snoozed:
    """Not now: come back in so many seconds. Not an attempt.

    `context` and `store` are as in `Done`: a step that learns it must go on elsewhere (another host's
    limit, say) adds what names the new key and comes back under it. `service`: how the service behind
    the step's keys did meanwhile, which its limits hear as if the step had ended so.
    """

    seconds: float
    reason: str
    context: Mapping[str, Any] = field(default_factory=dict)
    store: Callable[[], None] | None = None
    service: Done | Failed | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """It went wrong; the retry policy of its kind says what follows.

    `limit` names the limit whose service is to blame, where that is not the step's own key. `store`,
    as in `Done`, writes what was learnt even so.
    """

    kind: str
    message: str
    retry_after: float | None = None
    cost: int | None = None
    limit: str = ""
    store: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Stopped from outside (a shutdown) before it could end. Not an attempt."""

    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Its worker stopped renewing the lease: dead, frozen, or cut off."""


Result = Done | Skipped | Snoozed | Failed | Interrupted | Lost
