"""Limits: their fields and usage, editing them, resetting their breakers."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from django.http import Http404, HttpRequest
from ninja import Field, Router, Schema

from queuemgr.base.column_sizes import MAX_LIMIT_KEY
from queuemgr.models import LIMIT_FIELDS
from queuemgr.operations import controls
from queuemgr.operations.limit_names import limit_to_edit, why_none
from queuemgr.reporting import stats
from queuemgr.reporting.allowances import FIGURES
from queuemgr.scheduling.limit_input import validate
from queuemgr.scheduling.limit_rows import pattern_of
from queuemgr.web.api.auth import actor_of, caller_of, requires
from queuemgr.web.api.idempotency import idempotent
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import P10, P90, PRINTABLE, Name, WithReason
from queuemgr.web.api.settable import with_edits, with_figures, with_values

router = Router(tags=["limits"])


class ForecastOut(Schema):
    """Of remaining work alone: what waits and is expected to use it, at the pace of the last hour."""

    waiting: int = Field(description="What remaining work is expected to use, later steps included.")
    never: int = Field(description="What of it never can: one step takes more than the allowance holds.")
    per_hour: int = Field(description="Used an hour lately.")
    runs_out_at: datetime | None = Field(description="When nothing is left of it for what waits.")
    runs_out_at_p10: datetime | None = P10
    runs_out_at_p90: datetime | None = P90
    done_at: datetime | None = Field(
        description="When all that waits has begun; the earliest time if nothing was used lately."
    )
    done_at_p10: datetime | None = P10
    done_at_p90: datetime | None = P90
    because: str = Field(description="Why a time is null.")
    text: str


class _Allowance(Schema):
    """What is used of an allowance. Amounts are whole numbers of the smallest part of its meter: divided by
    `scale` they are in its unit (tokens, dollars). `text` is all of it in a sentence."""

    forecast: ForecastOut | None
    text: str


if TYPE_CHECKING:
    AllowanceOut = _Allowance
else:
    AllowanceOut = with_figures("AllowanceOut", _Allowance, FIGURES)


class LeftOut(Schema):
    """What a provider's answers left of a meter until then, less what runs may yet use; with a `reason` it
    refused for the meter, and nothing that uses it starts. `scale` is as that of an allowance."""

    meter: str
    scale: int
    left: int
    until: datetime
    reason: str
    text: str


class _Usage(Schema):
    """A limit and its usage. `open_until` null: its breaker is closed, or half-open if `half_open_starts` is
    not 0; `open_reason` is why it opened."""

    limit: str
    running: int
    spent: int
    reserved: int
    resets_at: datetime | None
    paused: str
    paused_until: datetime | None
    open_until: datetime | None
    open_reason: str
    half_open_starts: int
    allowances: list[AllowanceOut]
    provider: list[LeftOut]


class WaitingOn(Schema):
    """A reason why work waits on a limit: how many executions, and until when."""

    limit: str
    reason: str
    waiting: int
    until: datetime | None


LISTED = {name: field for name, field in LIMIT_FIELDS.items() if field.is_listed}

if TYPE_CHECKING:
    LimitOut = _Usage
else:
    LimitOut = with_values("LimitOut", _Usage, LISTED)


class _Detail(LimitOut):
    defined_by: str = Field(description="The row that defines it: its own, or a pattern's.")
    waiting_on_it: list[WaitingOn]


if TYPE_CHECKING:
    OneLimit = _Detail
else:
    OneLimit = with_values("OneLimit", _Detail, LIMIT_FIELDS)


class Limits(Schema):
    limits: list[LimitOut]


class _Edit(WithReason):
    """Fields to set; others keep their values. Creates a row for a name that has none."""

    new: bool = Field(False, description="Also for a name that no flow uses yet.")

    def given(self) -> dict[str, Any]:
        """The fields that were sent; raises `Problem` if none was, or one is null that cannot be."""
        sent = self.model_dump(exclude_unset=True, exclude={"reason", "new"})
        null = [n for n, value in sent.items() if value is None and not LIMIT_FIELDS[n].may_be_none]
        if null or not sent:
            raise Problem("invalid", f"{', '.join(null)} cannot be null" if null else "give a field to set")
        return sent


if TYPE_CHECKING:
    LimitFields = _Edit
else:
    LimitFields = with_edits("LimitFields", _Edit, LIMIT_FIELDS)


class BreakersInput(WithReason):
    limits: list[Annotated[str, Field(min_length=1, max_length=MAX_LIMIT_KEY, pattern=PRINTABLE)]] = Field(
        min_length=1, max_length=100, description="Names; a pattern stands for every key it applies to."
    )


class RemoveInput(WithReason):
    limit: Annotated[str, Field(min_length=1, max_length=MAX_LIMIT_KEY, pattern=PRINTABLE)]


class LimitRemoved(Schema):
    removed: str
    defined_by: str = Field(description="The pattern whose row defines it now; empty: none does.")


class BreakersReset(Schema):
    """The limits whose breaker was open or half-open and is now closed."""

    closed: list[str]


@router.get("/limits", response=Limits, **requires("read", "view_limit"))
def list_limits(request: HttpRequest) -> Limits:
    """Every limit with a row, and every key in use or with a breaker that is not closed."""
    return Limits(limits=[LimitOut(**facts) for facts in stats.limits()])


@router.post("/limits/reset-breaker", response=BreakersReset, **requires("operate", "pause_limit"))
@idempotent
def reset_breaker(request: HttpRequest, given: BreakersInput) -> BreakersReset:
    """Close the breakers of these limits at once."""
    return BreakersReset(closed=controls.reset_breakers(given.limits, actor_of(request, given.reason)))


@router.post("/limits/remove", response=LimitRemoved, **requires("limits", "change_limit"))
@idempotent
def remove_limit(request: HttpRequest, given: RemoveInput) -> LimitRemoved:
    """Remove the row of a limit: its pattern applies again, or nothing does. Refused for a limit that the
    settings or a flow of this release state."""
    controls.remove_limit(given.limit, actor_of(request, given.reason))
    return LimitRemoved(removed=given.limit, defined_by=pattern_of(given.limit))


@router.get("/limits/{path:name}", response=OneLimit, **requires("read", "view_limit"))
def show_limit(request: HttpRequest, name: Name) -> OneLimit:
    """One limit with all its fields and what waits on it."""
    return _detail(name)


def _detail(name: str) -> OneLimit:
    limit = stats.limit(name)
    if limit is None:
        raise Http404(why_none(name))
    return OneLimit(**limit)


@router.patch("/limits/{path:name}", response=OneLimit, **requires("limits", "change_limit"))
@idempotent
def edit_limit(request: HttpRequest, name: Name, given: LimitFields) -> OneLimit:
    """Set fields; work that they blocked starts at once."""
    fields = given.given()
    for field in fields:
        caller_of(request).require("limits", LIMIT_FIELDS[field].permission)
    validate(limit_to_edit(name, new=given.new), fields)
    controls.edit_limit(name, actor_of(request, given.reason), new=given.new, **fields)
    return _detail(name)
