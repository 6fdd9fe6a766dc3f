"""How a step may end, as values a task returns; nothing is written yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from queuemgr.flows.retry_policy import Policy


@dataclass(frozen=True, slots=True)
class Done:
    """The step did its work.

    `context` is merged into the execution's context. `result` is a JSON value stored with the execution,
    for whoever waits for it; None stores nothing. `store` writes what the step made elsewhere, inside the
    transaction that ends the lease, so that both commit or neither. `cost` is the number of requests sent,
    where that is less than was reserved. `service_result` is a failure of the step's service that did not
    keep the step from its result: it is reported to the step's limits all the same.
    """

    context: Mapping[str, Any] = field(default_factory=dict)
    store: Callable[[], None] | None = None
    cost: int | None = None
    service_result: Failed | None = None
    result: Any = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """The execution needs no work and ends here."""

    reason: str


@dataclass(frozen=True, slots=True)
class Snoozed:
    """Run the same step again in so many seconds. Not counted as an attempt.

    `context` and `store` are as in `Done`: a step that must continue under another limit key (that of
    another host, say) adds the key to its context and comes back under it. `service_result` is how the
    service behind the step's keys did, reported to its limits as if the step had ended so.
    """

    seconds: float
    reason: str
    context: Mapping[str, Any] = field(default_factory=dict)
    store: Callable[[], None] | None = None
    service_result: Done | Failed | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The step failed; the retry policy of `kind` decides what follows, unless it brings its own `policy`.

    `retry_after` is the wait in seconds the service asked for. `limit` names the limit of the service
    that failed, where that is not the step's own key. `store`, as in `Done`, writes partial results. With
    `blames_service` false it says nothing of the service behind the step's keys, whose breakers ignore it.
    `traceback` is stored with the attempt: masked, as `traceback_of` makes it. `meter`: of which meter a
    service that refused for a rate has too little left; work that uses none of it continues.
    """

    kind: str
    message: str
    retry_after: float | None = None
    cost: int | None = None
    limit: str = ""
    store: Callable[[], None] | None = None
    blames_service: bool = True
    policy: Policy | None = None
    traceback: str = ""
    meter: str = ""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Stopped from outside, by a shutdown say, before it ended. Not counted as an attempt."""

    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Its worker stopped renewing the lease, or the process that ran it ended. `cause` says what is known."""

    cause: str = "its worker stopped renewing its lease"


Result = Done | Skipped | Snoozed | Failed | Interrupted | Lost
