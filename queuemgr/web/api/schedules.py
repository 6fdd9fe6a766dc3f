"""Schedules: when they are due and what became of their runs; making, editing, pausing and running them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Field, Router, Schema, Status

from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import without_secrets_in
from queuemgr.models import Schedule
from queuemgr.operations import schedules
from queuemgr.reporting import schedules as report
from queuemgr.web.api.auth import actor_of, caller_of, requires
from queuemgr.web.api.idempotency import idempotent
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import PRINTABLE, Name, Page, PriorityName, Timestamp, WithReason, page_of

router = Router(tags=["schedules"])

OneName = Annotated[str, Field(min_length=1, max_length=200, pattern=PRINTABLE)]
Timing = Annotated[
    str,
    Field(
        min_length=1, max_length=500, pattern=PRINTABLE,
        description='As "cron 30 3 * * * in Europe/Berlin", "every 5m from end", "once 2026-12-01T03:00Z".',
    ),
]  # fmt: skip
MisfireName = Literal["skip", "run once", "run all"]
OverlapName = Literal["allow", "skip", "queue one"]


class RunOut(Schema):
    """What became of a due time. `until`: the last of several that were left out together, and `times` how
    many they are (null: not counted)."""

    due_at: datetime
    until: datetime | None
    times: int | None
    outcome: str
    reason: str | None
    late_seconds: float
    ended_at: datetime | None
    ended_as: str | None
    requested_by: str | None


class LastRun(RunOut):
    key: str | None = Field(description="Of its execution; null: there was none, or it was deleted.")
    seconds: float | None = Field(description="From its first start to its end.")


class ScheduleOut(Schema):
    schedule: str
    flow: str
    timing: str
    priority: str
    misfire: str
    misfire_limit: int
    overlap: str
    jitter: int
    state: str = Field(
        description="`in force`, `paused`, `running` (the next follows its end), `finished`, `retired`."
    )
    paused: str | None
    by_code: bool
    next_due_at: datetime | None
    waits_since: datetime | None
    late_seconds: float
    retired_at: datetime | None


class ListedSchedule(ScheduleOut):
    last: RunOut | None


class Schedules(Schema):
    schedules: list[ListedSchedule]
    next: str | None


class OneSchedule(ScheduleOut):
    payload: dict[str, Any] | None = Field(description="For those who may see payloads.")
    next_runs: list[datetime]
    runs: list[LastRun]


class ScheduleFields(WithReason):
    """Fields to set; the others stay."""

    timing: Timing | None = None
    payload: dict[str, Any] | None = None
    priority: PriorityName | None = None
    misfire: MisfireName | None = None
    misfire_limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    overlap: OverlapName | None = None
    jitter: Annotated[int, Field(ge=0, le=86_400)] | None = None

    def given(self, *apart: str) -> dict[str, Any]:
        """The fields that were sent; raises `Problem` if one is null."""
        sent = self.model_dump(exclude_unset=True, exclude={"reason", *apart})
        if null := [name for name, value in sent.items() if value is None]:
            raise Problem("invalid", f"{', '.join(null)} cannot be null")
        return sent


class NewSchedule(ScheduleFields):
    schedule: OneName
    flow: OneName
    timing: Timing


class PauseInput(WithReason):
    schedule: OneName
    until: Timestamp | None = None


class NamedSchedule(WithReason):
    schedule: OneName


class RunNow(Schema):
    schedule: str
    key: str = Field(description="Of the execution that was enqueued.")


class Deleted(Schema):
    deleted: str


@router.get("/schedules", response=Schedules, **requires("read", "view_schedule"))
def list_schedules(request: HttpRequest, paging: Page) -> Any:
    """Every schedule, the newest first, with its next due time and its last run."""
    page = page_of(Schedule.objects.defer("payload", "statements"), paging, "schedules")
    return {**page, "schedules": report.listed(page["schedules"])}


@router.post("/schedules", response={201: OneSchedule}, **requires("limits", "add_schedule"))
@idempotent
def create_schedule(request: HttpRequest, given: NewSchedule) -> Status[OneSchedule]:
    """Make a schedule, in force from now on. It enqueues: that needs the scope `enqueue` and the permission
    `add_execution` as well."""
    caller_of(request).require("enqueue", "add_execution")
    values = given.given("schedule", "flow", "timing")
    by = actor_of(request, given.reason)
    made = schedules.create(given.schedule, given.flow, given.timing, by, **values)
    return Status(201, _detail(request, made))


@router.post("/schedules/pause", response=OneSchedule, **requires("operate", "pause_schedule"))
@idempotent
def pause_schedule(request: HttpRequest, given: PauseInput) -> OneSchedule:
    """Skip its runs, each with the reason, until it is resumed. What it enqueued continues."""
    row = schedules.find(given.schedule)
    schedules.pause(row.name, actor_of(request, given.reason), given.until)
    return _detail(request, schedules.find(row.name))


@router.post("/schedules/resume", response=OneSchedule, **requires("operate", "pause_schedule"))
@idempotent
def resume_schedule(request: HttpRequest, given: NamedSchedule) -> OneSchedule:
    """Run it again from its next due time on."""
    row = schedules.find(given.schedule)
    schedules.resume(row.name, actor_of(request, given.reason))
    return _detail(request, schedules.find(row.name))


@router.post("/schedules/run", response=RunNow, **requires("operate", "run_schedule"))
@idempotent
def run_schedule(request: HttpRequest, given: NamedSchedule) -> RunNow:
    """Enqueue it now, whether it is due, paused or running or not."""
    row = schedules.find(given.schedule)
    return RunNow(schedule=row.name, key=schedules.run_now(row.name, actor_of(request, given.reason)))


@router.post("/schedules/delete", response=Deleted, **requires("limits", "delete_schedule"))
@idempotent
def delete_schedule(request: HttpRequest, given: NamedSchedule) -> Deleted:
    """Delete a schedule that a person made, or that no code states any more, with the record of its runs."""
    row = schedules.find(given.schedule)
    schedules.delete(row.name, actor_of(request, given.reason))
    return Deleted(deleted=row.name)


@router.get("/schedules/{path:name}", response=OneSchedule, **requires("read", "view_schedule"))
def show_schedule(request: HttpRequest, name: Name) -> OneSchedule:
    """One schedule with its next ten due times and its last runs."""
    return _detail(request, _find(name))


@router.patch("/schedules/{path:name}", response=OneSchedule, **requires("limits", "change_schedule"))
@idempotent
def edit_schedule(request: HttpRequest, name: Name, given: ScheduleFields) -> OneSchedule:
    """Set fields; they stay until the code states other values of them. Its payload needs the scope `payload`
    and the permission `edit_payload` as well."""
    values = given.given()
    if "payload" in values:
        caller_of(request).require("payload", "edit_payload")
    row, by = _find(name), actor_of(request, given.reason)
    return _detail(request, schedules.edit(row.name, by, shown=without_secrets_in, **values))


def _find(name: str) -> Schedule:
    """The one that an address names: of a body's, a wrong name is a wrong value."""
    try:
        return schedules.find(name)
    except BadInput as error:
        raise Problem("not-found", str(error)) from None


def _detail(request: HttpRequest, row: Schedule) -> OneSchedule:
    shown = report.shown(row, mask=without_secrets_in)
    return OneSchedule(**shown if caller_of(request).sees_payloads else {**shown, "payload": None})
