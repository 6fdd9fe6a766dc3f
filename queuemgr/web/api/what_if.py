"""What would be with other limits: forecasts of remaining work, and recorded work under them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Field, Router, Schema

from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.written_times import moment
from queuemgr.reporting.replay import ahead, what_if
from queuemgr.web.api.auth import caller_of, requires
from queuemgr.web.api.limits import AllowanceOut
from queuemgr.web.api.schemas import PRINTABLE, Input

router = Router(tags=["limits"])

MOST_CHANGES = 50
MOST_ATTEMPTS = 10_000
"""Attempts that are replayed while a client waits; `queue replay` has no such bound."""


class WhatIf(Input):
    changes: list[Annotated[str, Field(min_length=1, max_length=2000, pattern=PRINTABLE)]] = Field(
        min_length=1,
        max_length=MOST_CHANGES,
        description="As those of `queue replay --set`: `fleet.max_running=300`, `openai:gpt.usd/day=40`.",
    )
    since: Annotated[str, Field(max_length=64, pattern=PRINTABLE)] = Field(
        "", description="Replay what was recorded since: 2h, 7d (ago) or a time. Empty: nothing."
    )
    until: Annotated[str, Field(max_length=64, pattern=PRINTABLE)] = Field(
        "", description="And until; empty: now."
    )
    slots: Annotated[int, Field(ge=0, le=100_000)] = Field(
        0, description="Slots of the replay; 0: as many as ran at once, or those of live workers if more."
    )


class ForecastsOut(Schema):
    """The allowances of a limit as they are, and as they would be, with forecasts of remaining work."""

    limit: str
    as_is: list[AllowanceOut]
    changed: list[AllowanceOut]


class WaitsOut(Schema):
    """Seconds for which attempts of one priority waited."""

    count: int
    median: float
    p95: float
    longest: float


class TallyOut(Schema):
    attempts: int
    per_hour: float = Field(description="Attempts that succeeded, an hour.")
    makespan: float = Field(description="Seconds from the first arrival to the last end.")
    waits: dict[str, WaitsOut] = Field(description="By priority.")
    requests: dict[str, int] = Field(description="By day.")
    used: dict[str, dict[str, int]] = Field(description="By day and meter, in its smallest part.")
    stopped_by_budget: int | None = Field(description="Null of what was recorded: that is not.")
    never: dict[str, int] = Field(description="How many never start, by the reason.")


class ReplayOut(Schema):
    slots: int
    recorded: TallyOut
    as_is: TallyOut = Field(description="Replayed with the limits as they are.")
    changed: TallyOut | None = Field(description="Replayed with the changes.")


class WhatIfOut(Schema):
    limits: list[ForecastsOut] = Field(description="Those changed; of a pattern its keys.")
    replay: ReplayOut | None = Field(description="Null unless `since` was given.")


@router.post("/what-if", response=WhatIfOut, **requires("read", "view_limit"))
def show_what_if(request: HttpRequest, given: WhatIf) -> Any:
    """What would become of allowances with these changes, and of recorded work; nothing is changed. A replay
    asks for the permission to view attempts."""
    if given.since:
        caller_of(request).require("read", "view_attempt")
    return {
        "limits": list(ahead.forecasts(given.changes)),
        "replay": asdict(_replayed(given)) if given.since else None,
    }


def _replayed(given: WhatIf) -> what_if.Compared:
    now = database_now()
    until = moment(given.until, now) if given.until else None
    return what_if.compare(
        moment(given.since, now), until, given.changes, given.slots or None, most=MOST_ATTEMPTS
    )
