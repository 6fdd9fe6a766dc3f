"""What enqueueing would do and use, without doing it."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from ninja import Field, Schema

from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.enqueue import priority_of
from queuemgr.operations.dry_run import DryRun
from queuemgr.operations.dry_run_forecast import as_data
from queuemgr.operations.enqueueing import choose_flow
from queuemgr.web.api.auth import caller_of, requires
from queuemgr.web.api.enqueue import EnqueueMany, parse_items
from queuemgr.web.api.executions import router
from queuemgr.web.api.limits import AllowanceOut
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import P10, P90


class StepOut(Schema):
    phase: str
    step: str
    executions: int
    used: dict[str, int] = Field(description="By meter, in its smallest part.")
    guessed: bool = Field(
        description="Whether it is what the step used lately: its rules need more to say it."
    )


class AddsOut(AllowanceOut):
    """An allowance with what waits for it and what this would add; its forecast is of both."""

    limit: str
    adds: int
    exhausts: bool = Field(description="Whether less is left in this period.")


class PhaseOut(Schema):
    phase: str
    unfinished: int
    adds: int
    per_hour: float = Field(description="How many went through it an hour, of the last hour.")
    done_at: datetime | None
    done_at_p10: datetime | None = P10
    done_at_p90: datetime | None = P90
    because: str = Field(description="Why that is null.")


class DryRunOut(Schema):
    """What would become of a request to enqueue, and what it would use."""

    flow: str
    priority: str
    new: int
    already: int
    invalid: int = Field(description="Refused by the flow, or never admitted by a limit.")
    refused: int = Field(description="New ones that a full queue has no room for.")
    problems: list[str] = Field(description="Of the first of those that are invalid.")
    steps: list[StepOut]
    used: dict[str, int] = Field(description="By meter, all steps once.")
    scales: dict[str, int] = Field(description="How many of the amounts make one of a meter's unit.")
    allowances: list[AddsOut] | None = Field(description="Null for who may not view limits.")
    phases: list[PhaseOut]
    eta: datetime | None
    eta_p10: datetime | None = P10
    eta_p90: datetime | None = P90
    because: str = Field(description="Why that is null.")


@router.post("/executions/dry-run", response=DryRunOut, **requires("enqueue", "add_execution"))
def dry_run(request: HttpRequest, given: EnqueueMany) -> DryRunOut:
    """What enqueueing these would do: how many are new, what they would use, which allowances that exhausts
    and when all would be done. Nothing is written. An item that the flow does not understand refuses all."""
    flow = choose_flow(given.flow).name
    run = DryRun(flow, priority_of(given.priority))
    run.add(parse_items(flow, given.items))
    found = as_data(run, database_now())
    try:
        caller_of(request).require("read", "view_limit")
    except Problem:
        found["allowances"] = None
    return DryRunOut(**found)
