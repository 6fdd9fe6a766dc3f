"""Webhooks: who is notified of the ends of work, and how deliveries go; adding, editing, pausing, testing."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Field, Router, Schema, Status

from queuemgr.base.errors import BadInput
from queuemgr.lifecycle.webhook_events import FLOW
from queuemgr.models import Webhook, WebhookEvent
from queuemgr.operations import webhooks
from queuemgr.reporting import webhooks as report
from queuemgr.web.api.auth import actor_of, caller_of, requires
from queuemgr.web.api.idempotency import idempotent
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import PRINTABLE, Name, Page, Timestamp, WithReason, page_of

router = Router(tags=["webhooks"])

OneName = Annotated[str, Field(min_length=1, max_length=64, pattern=PRINTABLE)]
Pattern = Annotated[str, Field(min_length=1, max_length=200, pattern=PRINTABLE)]
EventName = Literal["finished", "failed", "cancelled", "lost", "batch_completed"]


class WebhookOut(Schema):
    webhook: str
    url: str = Field(description="Without its query, which may be a secret.")
    flows: list[str]
    events: list[str]
    secret: str = Field(description="The name of its entry in SLUICE_WEBHOOK_SECRETS.")
    allow_private: bool
    include_result: bool
    description: str
    limit: str = Field(description="What its deliveries are under.")
    state: str = Field(description="`in force`, `failing` or `paused`.")
    paused: str | None
    failed_in_row: int = Field(description="Deliveries that failed for good since one was accepted.")
    waiting: int = Field(description="Deliveries that have not ended; up to 1000 are counted.")
    failed: int = Field(description="Deliveries that failed for good; up to 1000 are counted.")
    created_at: datetime


class Webhooks(Schema):
    webhooks: list[WebhookOut]
    next: str | None


class DeliveryOut(Schema):
    key: str
    execution: int
    state: str
    error: str | None
    ended_at: datetime | None


class OneWebhook(WebhookOut):
    deliveries: list[DeliveryOut] = Field(description="The last ten.")


class WebhookFields(WithReason):
    """Fields to set; the others stay."""

    url: Annotated[str, Field(min_length=1, max_length=1000, pattern=PRINTABLE)] | None = None
    flows: Annotated[list[Pattern], Field(min_length=1, max_length=20)] | None = None
    events: Annotated[list[EventName], Field(min_length=1, max_length=5)] | None = None
    secret_name: Annotated[str, Field(max_length=64)] | None = None
    allow_private: bool | None = None
    include_result: bool | None = None
    description: Annotated[str, Field(max_length=300)] | None = None

    def given(self, *apart: str) -> dict[str, Any]:
        """The fields that were sent; raises `Problem` if one is null."""
        sent = self.model_dump(exclude_unset=True, exclude={"reason", *apart})
        if null := [name for name, value in sent.items() if value is None]:
            raise Problem("invalid", f"{', '.join(null)} cannot be null")
        return sent


class NewWebhook(WebhookFields):
    webhook: OneName
    url: Annotated[str, Field(min_length=1, max_length=1000, pattern=PRINTABLE)]


class PauseWebhook(WithReason):
    webhook: OneName
    until: Timestamp | None = None


class NamedWebhook(WithReason):
    webhook: OneName


class TestSent(Schema):
    webhook: str
    flow: str
    key: str = Field(description="Of the execution that delivers it.")


class Removed(Schema):
    removed: str


@router.get("/webhooks", response=Webhooks, **requires("read", "view_webhook"))
def list_webhooks(request: HttpRequest, paging: Page) -> Any:
    """Every webhook, the newest first."""
    page = page_of(Webhook.objects.all(), paging, "webhooks")
    return {**page, "webhooks": report.listed(page["webhooks"])}


@router.post("/webhooks", response={201: OneWebhook}, **requires("limits", "add_webhook"))
@idempotent
def add_webhook(request: HttpRequest, given: NewWebhook) -> Status[OneWebhook]:
    """Make a webhook, notified of what ends from now on: that needs the scope `read` and the permission
    `view_execution` as well, and `view_batch` for batches. One that sends results needs the scope `payload`
    and the permission `view_payload`."""
    values = given.given("webhook", "url")
    _check_sight(request, values)
    _check_results(request, values)
    row = webhooks.add(given.webhook, given.url, actor_of(request, given.reason), **values)
    return Status(201, _detail(row))


@router.post("/webhooks/pause", response=OneWebhook, **requires("operate", "pause_webhook"))
@idempotent
def pause_webhook(request: HttpRequest, given: PauseWebhook) -> OneWebhook:
    """Tell it nothing until it is resumed: what ends meanwhile is not delivered later."""
    webhooks.pause(given.webhook, actor_of(request, given.reason), given.until)
    return _detail(webhooks.find(given.webhook))


@router.post("/webhooks/resume", response=OneWebhook, **requires("operate", "pause_webhook"))
@idempotent
def resume_webhook(request: HttpRequest, given: NamedWebhook) -> OneWebhook:
    """Tell it of what ends from now on."""
    webhooks.resume(given.webhook, actor_of(request, given.reason))
    return _detail(webhooks.find(given.webhook))


@router.post("/webhooks/test", response=TestSent, **requires("operate", "test_webhook"))
@idempotent
def test_webhook(request: HttpRequest, given: NamedWebhook) -> TestSent:
    """Send it a test, as an execution like any delivery."""
    key = webhooks.send_test(given.webhook, actor_of(request, given.reason))
    return TestSent(webhook=given.webhook, flow=FLOW, key=key)


@router.post("/webhooks/remove", response=Removed, **requires("limits", "delete_webhook"))
@idempotent
def remove_webhook(request: HttpRequest, given: NamedWebhook) -> Removed:
    """Delete a webhook; deliveries that wait are skipped."""
    webhooks.remove(given.webhook, actor_of(request, given.reason))
    return Removed(removed=given.webhook)


@router.get("/webhooks/{name}", response=OneWebhook, **requires("read", "view_webhook"))
def show_webhook(request: HttpRequest, name: Name) -> OneWebhook:
    """One webhook with its last deliveries."""
    return _detail(_find(name))


@router.patch("/webhooks/{name}", response=OneWebhook, **requires("limits", "change_webhook"))
@idempotent
def edit_webhook(request: HttpRequest, name: Name, given: WebhookFields) -> OneWebhook:
    """Set fields; deliveries that wait go to a new address. It needs what making it needs."""
    row, values = _find(name), given.given()
    _check_sight(request, {"events": row.events.split(), **values})
    _check_results(request, values, row)
    by, sees_results = actor_of(request, given.reason), caller_of(request).sees_payloads
    return _detail(webhooks.edit(row.name, by, sees_results=sees_results, **values))


def _check_sight(request: HttpRequest, values: dict[str, Any]) -> None:
    """A receiver gets what whoever names it may see."""
    caller = caller_of(request)
    caller.require("read", "view_execution")
    if WebhookEvent.BATCH_COMPLETED in values.get("events", ()):
        caller.require("read", "view_batch")


def _check_results(request: HttpRequest, values: dict[str, Any], row: Webhook | None = None) -> None:
    if webhooks.sends_results(values, row):
        caller_of(request).require("payload", "view_payload")


def _find(name: str) -> Webhook:
    """The one that an address names: of a body's, a wrong name is a wrong value."""
    try:
        return webhooks.find(name)
    except BadInput as error:
        raise Problem("not-found", str(error)) from None


def _detail(row: Webhook) -> OneWebhook:
    return OneWebhook(**report.shown(row))
