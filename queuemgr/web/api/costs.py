"""What was used of each meter, as `queue costs` shows it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from queuemgr.base.config import queue_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.written_times import moment
from queuemgr.reporting.costs import MOST_ROWS, costs, may_see
from queuemgr.web.api.auth import caller_of, requires
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import PRINTABLE, Input

router = Router(tags=["stats"])

Word = Annotated[str, Field(max_length=64, pattern=PRINTABLE)]


class CostsAsked(Input):
    by: Literal["tenant", "flow", "step", "model", "limit", "day", "batch", "execution"] = "tenant"
    since: Word = Field("", description="What ended since: 2h, 7d (ago) or a time; default 1d, by day 30d.")
    until: Word = Field("", description="What ended before; default now.")
    meter: Word = Field("", description="Only of this meter; default all.")
    zone: Word = Field("", description="Where days are; default SLUICE_BUDGET_ZONE.")
    rows: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 100


class CostsTotal(Schema):
    attempts: int
    used: dict[str, int] = Field(description="By meter, in its smallest part.")


class CostsRow(CostsTotal):
    """Under the word it is by, its name; by execution and batch also the number of that."""

    tenant: str | None = None
    flow: str | None = None
    step: str | None = None
    model: str | None = None
    limit: str | None = None
    day: str | None = None
    batch: str | None = None
    batch_id: int | None = None
    execution: str | None = None
    execution_id: int | None = None


class CostsOut(Schema):
    by: str
    since: datetime
    until: datetime
    zone: str
    scales: dict[str, int] = Field(description="How many of the amounts make one of a meter's unit.")
    rows: list[CostsRow]
    left_out: int = Field(description="How many more there are.")
    total: CostsTotal
    cut_off_before: datetime | None = Field(description="What ended before is not in it; null: all is.")


@router.get("/costs", response=CostsOut, exclude_unset=True, **requires("read", "view_allowanceusage"))
def show_costs(request: HttpRequest, asked: Query[CostsAsked]) -> Any:
    """What ended attempts used of each meter, the most used first. By execution and batch it asks for the
    permission to view these."""
    if unknown := [name for name in request.GET if name not in CostsAsked.model_fields]:
        known = ", ".join(CostsAsked.model_fields)
        raise Problem("invalid", f"no parameter is called {unknown[0]!r}: {known}")
    for permission in may_see(asked.by):
        caller_of(request).require("read", permission)
    now = database_now()
    found = costs(
        asked.by, now, meter=asked.meter, rows=asked.rows,
        since=moment(asked.since, now) if asked.since else None,
        until=moment(asked.until, now) if asked.until else None,
        zone=asked.zone or queue_settings().budget_zone,
    )  # fmt: skip
    return found.as_data()
