"""Enqueue one execution from the admin: an item, or a key and a payload in fields of the flow's types."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from queuemgr.base.errors import BadInput, SluiceError, UnknownFlow
from queuemgr.flows import callbacks, payload_validation
from queuemgr.flows.flow import HAND_OVER, PRIORITIES, Flow, NewExecution, all_flows, get_flow
from queuemgr.lifecycle import webhook_events
from queuemgr.lifecycle.enqueue import atomically, enqueue_many
from queuemgr.models import Execution
from queuemgr.operations import remote_work
from queuemgr.operations.enqueueing import audited_enqueue
from queuemgr.web.admin.execution_actions import ActionForm, PayloadForm
from queuemgr.web.admin.payload_fields import TypedPayload, with_why_not
from queuemgr.web.admin.payload_members import members_of
from queuemgr.web.admin.read_only_admin import actor_of, render_page
from queuemgr.web.admin.utc_field import UtcDateTimeField
from queuemgr.web.links import address

MADE_BY_THE_QUEUE = frozenset({webhook_events.FLOW, HAND_OVER})


class EnqueueForm(ActionForm):
    priority = forms.ChoiceField(choices=[(name, name) for name in PRIORITIES], initial="normal")
    run_after = UtcDateTimeField(
        required=False,
        label="Not before (UTC)",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"],
        help_text="Empty: as soon as limits allow.",
    )

    def clean_run_after(self) -> datetime | None:
        when: datetime | None = self.cleaned_data["run_after"]
        return when if when is None or when.tzinfo else when.replace(tzinfo=UTC)


class ItemForm(EnqueueForm):
    """For a flow that makes keys and payloads of items, with what may be asked for each."""

    item = forms.CharField(max_length=4096, help_text="What the flow takes in, as it understands it.")
    field_order = ("item", "priority", "run_after", "reason")

    def __init__(self, *args: Any, flags: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.flags = [f"flag-{name}" for name in flags]
        for name, text in flags.items():
            field = forms.BooleanField(required=False, label=name.replace("_", " "), help_text=text)
            self.fields[f"flag-{name}"] = field

    def new(self, flow: Flow) -> NewExecution:
        new = remote_work.new_execution(flow.name, self.cleaned_data["item"])
        asked = {name.removeprefix("flag-"): True for name in self.flags if self.cleaned_data[name]}
        return callbacks.with_flags(flow, new, asked) if asked else new


class KeyedForm(EnqueueForm):
    key = forms.CharField(max_length=payload_validation.MAX_KEY, help_text="Unique in the flow.")

    def new(self, flow: Flow) -> NewExecution:
        key, payload = self.cleaned_data["key"], self.cleaned_data["payload"]
        return remote_work.new_execution(flow.name, None, key, payload)


class JsonForm(KeyedForm):
    payload = PayloadForm.declared_fields["payload"]
    clean_payload = PayloadForm.clean_payload
    field_order = ("key", "payload", "priority", "run_after", "reason")


class TypedForm(TypedPayload, KeyedForm):
    """With fields of the flow's payload types."""


def _form(flow: Flow, data: Any = None) -> ItemForm | JsonForm | TypedForm:
    if flow.parse_remote_item or flow.parse_item:
        return ItemForm(data, flags=flow.item_flags, label_suffix="")
    members = members_of(flow)
    if members.found is None:
        return with_why_not(JsonForm(data, initial={"payload": "{}"}, label_suffix=""), members)
    form = TypedForm(data, members=members.found, before={}, label_suffix="")
    form.order_fields(["key", *(n for n in form.fields if n not in KeyedForm.base_fields)])
    return form


def enqueue_page(request: HttpRequest) -> HttpResponse:
    """The flows there are, or the form of the one that is chosen."""
    if not request.user.has_perms(("queuemgr.add_execution", "queuemgr.view_execution")):
        raise PermissionDenied
    flows = [flow for flow in all_flows() if flow.name not in MADE_BY_THE_QUEUE]
    asked = (request.POST if request.method == "POST" else request.GET).get("flow", "")
    context: dict[str, Any] = {"title": "Enqueue", "flows": flows, "opts": Execution._meta, "flow": ""}
    flow = _flow(asked, flows) if asked else None
    if asked and flow is None:
        messages.error(request, f"No flow here is called {asked[:60]!r}.")
    if flow is None:
        return render_page(request, "enqueue", **context)
    form = _form(flow, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            return redirect(address("queuemgr_execution_change", _enqueue(request, flow, form)))
        except SluiceError as error:
            form.refused(error)
    return render_page(request, "enqueue", **{**context, "flow": flow.name, "form": form})


def _flow(name: str, offered: list[Flow]) -> Flow | None:
    try:
        flow = get_flow(name)
    except UnknownFlow:
        return None
    return flow if flow in offered else None


def _enqueue(request: HttpRequest, flow: Flow, form: ItemForm | JsonForm | TypedForm) -> int:
    """Enqueue it, and the id of it or of the one that is there with its key."""
    new, priority = form.new(flow), form.cleaned_data["priority"]
    with audited_enqueue(flow.name, actor_of(request), priority=priority) as counted:
        enter = partial(enqueue_many, flow.name, [new], priority=PRIORITIES[priority])
        done = counted(atomically(partial(enter, run_after=form.cleaned_data["run_after"])))
    key = done.instead.get(new.key, new.key)
    found = Execution.objects.filter(flow=flow.name, key=key).values_list("pk", flat=True).first()
    if found is None:
        raise BadInput(f"{flow.name}/{key} is gone already")
    if done.new:
        messages.success(request, f"{flow.name}/{key} was enqueued.")
    else:
        messages.warning(request, f"{flow.name}/{key} is there already; nothing was enqueued.")
    return found
