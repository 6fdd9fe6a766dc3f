"""The words and values requests and answers are made of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from ninja import Field, Path, Schema
from pydantic import AfterValidator, AwareDatetime, ConfigDict

from queuemgr.lifecycle.enqueue import MAX_KEY

BIGGEST_ID = 2**63 - 1
PositiveInteger = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""What a column of Django's `PositiveIntegerField` holds."""

NO_NUL = "^[^\\x00]*$"
PRINTABLE = "^[^\\x00-\\x1f\\x7f]*$"

Id = Annotated[int, Path(ge=1, le=BIGGEST_ID)]
Name = Annotated[str, Path(min_length=1, max_length=255, pattern=PRINTABLE)]
Key = Annotated[str, Field(min_length=1, max_length=MAX_KEY, pattern=PRINTABLE)]
Text = Annotated[str, Field(max_length=255, pattern=PRINTABLE)]
PriorityName = Literal["high", "normal", "low"]


def _in_utc(moment: datetime) -> datetime:
    """An offset can move the first and last years to where no database or Python follows."""
    if not 1970 <= moment.year < 9000:
        raise ValueError("give a time from 1970 on and before 9000")
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""ISO 8601 with an offset: a time without one would mean something else on every machine."""


class Asked(Schema):
    """Base of what is sent: a member nobody knows is a typo, and refused."""

    model_config = ConfigDict(extra="forbid")


class Reasoned(Asked):
    """What changes something may say why."""

    reason: Annotated[
        str, Field(max_length=200, pattern=NO_NUL, description="Why, for the record of changes.")
    ] = ""


SAID_NOTHING = Reasoned()


class Changed(Schema):
    """How many executions a verb changed; the others were left alone, as their state asks."""

    changed: int


class ExecutionOut(Schema):
    """An execution as it stands. Payload and context are null for whoever may not see them."""

    id: int
    flow: str
    key: str
    status: str = Field(description="The operator's word: pending, prepping, prepped, …")
    state: str
    phase: str
    step: str
    priority: str
    run_after: datetime | None
    wait_reason: str
    error_kind: str
    error_message: str
    error_fingerprint: str
    batch: str | None
    batch_seq: int | None
    created_at: datetime
    finished_at: datetime | None
    payload: dict[str, Any] | None = None
    context: dict[str, Any] | None = None


class ProgressOut(Schema):
    """A batch's members by where they stand; `eta` null: `unknown` says why."""

    total: int
    waiting: int
    running: int
    done: int
    failed: int
    skipped: int
    cancelled: int
    eta: datetime | None
    unknown: str
