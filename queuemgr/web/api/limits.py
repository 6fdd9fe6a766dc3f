"""Limits: their figures and use, editing them, resetting their breakers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import Http404, HttpRequest
from ninja import Field, Router, Schema

from queuemgr.operations import controls
from queuemgr.reporting import explain, stats
from queuemgr.scheduling.limit_input import limit_to_edit, no_limit, validate
from queuemgr.web.api.auth import by, needs
from queuemgr.web.api.idempotency import once
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import PRINTABLE, Name, PositiveInteger, Reasoned

router = Router(tags=["limits"])


class LimitOut(Schema):
    """A limit as it stands. `daily_budget` null: none; 0 in `max_running`: no cap. `open_until` null: its
    breaker is closed, or half-open if `half_open_starts` is not 0; `open_reason` is why it opened."""

    limit: str
    running: int
    max_running: int
    reserved_high: int
    rate: str
    daily_budget: int | None
    spent: int
    reserved: int
    resets_at: datetime | None
    paused: str
    paused_until: datetime | None
    open_until: datetime | None
    open_reason: str
    half_open_starts: int


class WaitingOn(Schema):
    """What a limit stops: how many, in which words, until when."""

    limit: str
    reason: str
    waiting: int
    until: datetime | None


class OneLimit(LimitOut):
    budget_zone: str
    reserved_for_high_percent: int
    blocked_for_low_percent: int
    share: int
    breaker_after: int
    goes_by: str = Field(description="The row whose figures it obeys: its own, or a pattern's.")
    waiting_on_it: list[WaitingOn]


class Limits(Schema):
    limits: list[LimitOut]


Percent = Annotated[int, Field(ge=0, le=100)]


class Figures(Reasoned):
    """Figures to set; those not given stay. Of a name without a row a row is made."""

    max_running: PositiveInteger | None = None
    reserved_high: PositiveInteger | None = None
    rate: str | None = Field(None, max_length=64, pattern=PRINTABLE, description='Such as "1/3s".')
    daily_budget: PositiveInteger | None = Field(None, description="Null takes it away.")
    budget_zone: str | None = Field(None, max_length=64, pattern=PRINTABLE)
    reserved_for_high_percent: Percent | None = None
    blocked_for_low_percent: Percent | None = None
    share: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    breaker_after: PositiveInteger | None = None

    def given(self) -> dict[str, Any]:
        """Those that were sent; only a budget can be null."""
        sent = self.model_dump(exclude_unset=True, exclude={"reason"})
        null = [name for name, value in sent.items() if value is None and name != "daily_budget"]
        if null or not sent:
            raise Problem(
                "invalid", f"{', '.join(null)} cannot be null" if null else "name a figure to set"
            )
        return sent


class ToReset(Reasoned):
    limits: list[Annotated[str, Field(min_length=1, max_length=255, pattern=PRINTABLE)]] = Field(
        min_length=1,
        max_length=100,
        description="Names; a pattern stands for every key it applies to.",
    )


class BreakersReset(Schema):
    """The limits whose breaker was open or half-open, and is closed now."""

    closed: list[str]


@router.get("/limits", response=Limits, **needs("read", "view_limit"))
def list_limits(request: HttpRequest) -> Limits:
    """Every limit with a row, and every key in use or with a breaker that is not closed."""
    return Limits(limits=[LimitOut(**facts) for facts in stats.all_limits()])


@router.post("/limits/reset-breaker", response=BreakersReset, **needs("operate", "pause_limit"))
@once
def reset_breaker(request: HttpRequest, given: ToReset) -> BreakersReset:
    """Close the breakers of these limits at once."""
    return BreakersReset(closed=controls.reset_breakers(given.limits, by(request, given.reason)))


@router.get("/limits/{path:name}", response=OneLimit, **needs("read", "view_limit"))
def show_limit(request: HttpRequest, name: Name) -> OneLimit:
    """One limit with all its figures and what waits on it."""
    return _shown(name)


def _shown(name: str) -> OneLimit:
    found = stats.limit(name)
    if found is None:
        raise Http404(no_limit(name))
    stopped = [stats.vars_of(s) for s in explain.what_stops_work() if s.limit == name]
    return OneLimit(**found, waiting_on_it=[WaitingOn(**facts) for facts in stopped])


@router.patch("/limits/{path:name}", response=OneLimit, **needs("limits", "change_limit"))
@once
def edit_limit(request: HttpRequest, name: Name, given: Figures) -> OneLimit:
    """Set figures; work they stopped starts at once."""
    figures, limit = given.given(), limit_to_edit(name)
    for figure, value in figures.items():
        setattr(limit, figure, value)
    validate(limit)
    controls.edit_limit(name, by(request, given.reason), **figures)
    return _shown(name)
