"""Field types, base classes and the schemas that several resources share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from django.db.models import Model, QuerySet
from django.http import Http404
from ninja import Field, Path, Query, Schema
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, ConfigDict

from queuemgr.base.column_sizes import MAX_INTEGER
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.lifecycle.enqueue import MAX_KEY

BIGGEST_ID = 2**63 - 1
PositiveInteger = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
"""What a column of Django's `PositiveIntegerField` holds."""

NO_NUL = "^[^\\x00]*$"
PRINTABLE = "^[^\\x00-\\x1f\\x7f]*$"

Id = Annotated[int, Path(ge=1, le=BIGGEST_ID)]
IdNumber = Annotated[int, Field(ge=1, le=BIGGEST_ID)]
Name = Annotated[str, Path(min_length=1, max_length=255, pattern=PRINTABLE)]
Key = Annotated[str, Field(min_length=1, max_length=MAX_KEY, pattern=PRINTABLE)]
PriorityName = Literal["high", "normal", "low"]
PriorityOut = Annotated[str, BeforeValidator(PRIORITY_NAMES.get)]
"""The name of a priority, made of the number in its column."""


def _in_utc(timestamp: datetime) -> datetime:
    """The conversion could overflow in the first and last years of `datetime`."""
    if not 1970 <= timestamp.year < 9000:
        raise ValueError("give a time from 1970 on and before 9000")
    return timestamp.astimezone(UTC)


Timestamp = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""ISO 8601; the offset is required."""


class Input(Schema):
    """Base of request bodies and queries: unknown members are refused."""

    model_config = ConfigDict(extra="forbid")


class WithReason(Input):
    reason: Annotated[str, Field(max_length=200, pattern=NO_NUL, description="Reason for the audit log.")] = (
        ""
    )


NO_REASON = WithReason()


class Changed(Schema):
    """How many executions changed; the others were left unchanged because of their state."""

    changed: int


P10 = Field(description="The 10th percentile of the estimate: one of ten is sooner; null without one.")
P90 = Field(description="The 90th percentile of the estimate: one of ten is later; null without one.")


class ProgressOut(Schema):
    """A batch's members by state; if `eta` is null, `unknown` has the reason."""

    total: int
    waiting: int
    running: int
    done: int
    failed: int
    skipped: int
    cancelled: int
    eta: datetime | None
    eta_p10: datetime | None = P10
    eta_p90: datetime | None = P90
    unknown: str


class Paging(Schema):
    """A page of `rows` rows after `cursor`, the previous page's `next`."""

    cursor: str = Field("", pattern="^([1-9][0-9]{0,17})?$")
    rows: int = Field(50, ge=1, le=500)


Page = Query[Paging]


Row = TypeVar("Row", bound=Model)


def page_of(rows: QuerySet[Any], paging: Paging, name: str) -> dict[str, Any]:
    """One page under this name, newest first, and the cursor of the next page (None: this is the last).

    The cursor is an id: rows inserted or deleted meanwhile shift no page.
    """
    if paging.cursor:
        rows = rows.filter(pk__lt=int(paging.cursor))
    fetched = list(rows.order_by("-pk")[: paging.rows + 1])
    page = fetched[: paging.rows]
    return {name: page, "next": str(page[-1].pk) if len(fetched) > paging.rows else None}


def get_or_404(model: type[Row], problem: str, **by: Any) -> Row:
    """The row with these values; raises `Http404` with the problem."""
    row = model._default_manager.filter(**by).first()
    if row is None:
        raise Http404(problem)
    return row
