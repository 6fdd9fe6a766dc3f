"""Webhooks: who is notified of the ends of work, and how deliveries go; adding, editing, pausing, testing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest

from queuemgr.base.errors import SluiceError
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.webhook_events import FLOW
from queuemgr.models import Webhook, WebhookEvent
from queuemgr.operations import webhooks
from queuemgr.operations.controls import Actor
from queuemgr.reporting import webhooks as report
from queuemgr.web.admin import alerts, row_actions
from queuemgr.web.admin.pausing import PauseForm, PausingAdmin
from queuemgr.web.admin.read_only_admin import ExtraPage, ReasonForm, actor_of
from queuemgr.web.page_registry import page

FIELDS = tuple(name for name in webhooks.FIELDS if name != "url")
"""What a form shows as it is: an address is shown without its query, and typed anew."""


class Fields(ReasonForm):
    """The rules are those of `operations.webhooks`, which the fields ask one by one."""

    events = forms.MultipleChoiceField(
        choices=WebhookEvent.choices, widget=forms.CheckboxSelectMultiple, initial=[WebhookEvent.FAILED]
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["events"] = self.instance.events.split()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        for name in FIELDS:
            if name in cleaned:
                try:
                    cleaned[name] = webhooks.checked({name: cleaned[name]})[name]
                except SluiceError as error:
                    self.add_error(name, str(error))
        return cleaned


class NewForm(Fields):
    class Meta:
        model = Webhook
        fields = ("name", *webhooks.FIELDS)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        try:
            if {"name", "url"} <= cleaned.keys():
                webhooks.check_new(str(cleaned["name"]), str(cleaned["url"]), bool(cleaned["allow_private"]))
        except SluiceError as error:
            raise ValidationError(str(error)) from None
        return cleaned


class EditForm(Fields):
    url = forms.CharField(required=False, help_text="A new address; empty: as it is.")

    class Meta:
        model = Webhook
        fields = FIELDS


@page(Webhook)
class WebhookAdmin(PausingAdmin):
    form = NewForm
    list_display = ("name", "shown_url", "flows", "events", "state", "waiting", "failed")
    titles = {"shown_url": "url", "state": "state", "waiting": "waiting", "failed": "failed"}
    search_fields = ("name",)
    search_help_text = "A part of its name."
    sortable_by = ("name",)
    may_add = True
    own_page = "webhook"
    operations = webhooks

    def has_add_permission(self, request: HttpRequest) -> bool:
        """A receiver gets what whoever names it may see."""
        return super().has_add_permission(request) and bool(request.user.has_perm("queuemgr.view_execution"))

    def read_page(self, rows: Sequence[Any]) -> None:
        for row, shown in zip(rows, report.listed(rows), strict=True):
            row.shown_url, row.state = shown["url"], shown["paused"] or shown["state"]
            row.waiting, row.failed = shown["waiting"], shown["failed"]

    def pages(self) -> Iterable[ExtraPage]:
        yield from alerts.pages()
        yield row_actions.form_page(self, "edit", "change", row_actions.edit_of(EditForm), _edit)
        yield from row_actions.pausing_pages(
            self, "nothing is delivered until it is resumed.", "it is notified of what ends from now on."
        )
        yield row_actions.button_page(self, "test", "test", _test)
        yield row_actions.button_page(self, "remove", "delete", _remove)

    def save_model(self, request: HttpRequest, obj: Webhook, form: NewForm, change: bool) -> None:
        values = {name: form.cleaned_data[name] for name in FIELDS}
        _check_sight(request, values)
        _check_results(request, values)
        obj.pk = webhooks.add(obj.name, obj.url, actor_of(request), **values).pk

    def own_context(self, request: HttpRequest, row: Webhook) -> dict[str, Any]:
        return {
            "title": f"Webhook {row.name}", "webhook": row, "shown": report.shown(row), "flow": FLOW,
            "is_paused": row.is_paused(database_now()), "edit_form": EditForm(instance=row),
            "pause_form": PauseForm(),
        }  # fmt: skip


def _check_sight(request: HttpRequest, values: dict[str, Any]) -> None:
    of_batches = WebhookEvent.BATCH_COMPLETED in values["events"].split()
    needed = ("queuemgr.view_execution", *(("queuemgr.view_batch",) if of_batches else ()))
    if not request.user.has_perms(needed):
        raise PermissionDenied


def _check_results(request: HttpRequest, values: dict[str, Any], row: Webhook | None = None) -> None:
    if webhooks.sends_results(values, row) and not request.user.has_perm("queuemgr.view_payload"):
        raise PermissionDenied


def _edit(request: HttpRequest, row: Webhook, form: EditForm) -> str:
    values = {name: form.cleaned_data[name] for name in FIELDS}
    values |= {"url": form.cleaned_data["url"]} if form.cleaned_data["url"] else {}
    _check_sight(request, values)
    _check_results(request, values, row)
    sees_results = request.user.has_perm("queuemgr.view_payload")
    webhooks.edit(row.name, actor_of(request), sees_results=sees_results, **values)
    return "Saved."


def _test(row: Webhook, by: Actor) -> str:
    return f"A test is enqueued as {FLOW}/{webhooks.send_test(row.name, by)}."


def _remove(row: Webhook, by: Actor) -> str:
    webhooks.remove(row.name, by)
    return f"Removed: {row.name}."
