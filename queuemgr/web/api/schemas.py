"""Field types, base classes and the schemas that several resources share."""

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


class ExecutionOut(Schema):
    """An execution. Payload and context are null for callers without permission to see them."""

    id: int
    flow: str
    key: str
    status: str = Field(description="The word its phase has for it: while it waits, while it runs.")
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


class QueueCounts(Schema):
    queue: str
    phase: str
    priority: str
    waiting: int
    due: int
    leased: int
    running: int
    oldest_wait_seconds: float | None


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
    unknown: str
