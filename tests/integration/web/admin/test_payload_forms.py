"""Payloads in forms made of their flow's types: enqueued from the admin, and edited for another run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from django import forms
from django.test import Client
from django.urls import reverse
from pydantic import BaseModel, ConfigDict

from queuemgr.flows import flow
from queuemgr.flows.flow import Flow, Phase, Step
from queuemgr.models import AuditEntry, Execution, State
from queuemgr.web.admin.payload_fields import Member, TypedPayload
from tests.integration.web.admin.admin_pages import a_failed, page, text_of
from tests.integration.web.admin.execution_pages import own_page

pytestmark = pytest.mark.django_db(transaction=True)

BAD = (
    "-1",
    "nan",
    "1e999",
    "9" * 5_000,
    "9" * 400,
    "x" * 70_000,
    "a\x00b",
    "{",
    "[" * 5_000,
    '"\\ud800"',
    "null",
    "true",
)


class Send(BaseModel):
    """A member of every kind."""

    model_config = ConfigDict(extra="forbid")

    host: str
    count: int
    ratio: float = 0.5
    loud: bool = False
    mood: Literal["calm", "wild"] = "calm"
    tags: list[str] | None = None


@pytest.fixture(autouse=True)
def _declared() -> Iterator[None]:
    before = dict(flow._flows)
    phase = Phase("prep", rank=2, waiting="pending", running="prepping", steps=(Step("send", "forms.send"),))
    flow.register_flow(Flow("forms.send", (phase,), payload_model=lambda: Send))
    yield
    flow._flows.clear()
    flow._flows.update(before)


def enqueue_page() -> str:
    return reverse("admin:queuemgr_execution_enqueue")


def enqueue(client: Client, **typed: str) -> Any:
    return client.post(enqueue_page(), {"flow": "forms.send", "priority": "normal", **typed}, follow=True)


def typed(**members: str) -> dict[str, str]:
    return {f"member-{name}": value for name, value in members.items()}


def test_a_payload_is_enqueued_in_fields_of_its_types_and_recorded(operator: Client, sent: list[Any]) -> None:
    shown = text_of(operator.get(enqueue_page(), {"flow": "forms.send"}))
    assert "A whole number." in shown
    given = typed(host="a.example", count="3", loud="true", mood="wild", tags='["new"]')
    text = text_of(enqueue(operator, key="one", reason="asked by mail", **given))
    assert "forms.send/one was enqueued" in text
    assert Execution.objects.get().payload == {
        "host": "a.example", "count": 3, "loud": True, "mood": "wild", "tags": ["new"],
    }  # fmt: skip
    entry = AuditEntry.objects.get(action="enqueue")
    assert (entry.actor, entry.source, entry.reason) == ("sam", "admin", "asked by mail")
    assert "there already" in text_of(enqueue(operator, key="one", **given))
    assert Execution.objects.count() == 1


def test_what_is_wrong_is_said_at_its_field(operator: Client) -> None:
    form = enqueue(operator, key="one", **typed(count="many")).context["form"]
    assert form.errors == {"member-count": ["Write a whole number."]}
    form = enqueue(operator, key="one", **typed(host="a", count="1", tags='["a", 7]')).context["form"]
    assert form.errors == {"member-tags": ["Input should be a valid string."]}
    form = enqueue(operator, key="schedule:x", **typed(host="a", count="1")).context["form"]
    assert "keys of schedules" in str(form.non_field_errors())
    assert not Execution.objects.exists()


def test_no_hostile_value_of_any_field_fails(operator: Client) -> None:
    for value in BAD:
        given = typed(host=value, count=value, ratio=value, loud=value, tags=value)
        assert enqueue(operator, key="one", run_after=value[:9], **given).status_code in (200, 400)
    assert not Execution.objects.exists()


MEMBERS = [
    Member("text", "string", False), Member("count", "integer", False), Member("ratio", "number", False),
    Member("loud", "boolean", False), Member("mood", "string", False, ("calm", "wild")),
    Member("tags", "array", False),
]  # fmt: skip


class Shown(TypedPayload, forms.Form):
    """Nothing but the payload."""


@pytest.mark.parametrize(
    "value", [None, "null", "", "a\nb", "a\r\nb", 3, 0.5, True, "sad", ["a"], {"b": None}]
)
def test_a_form_sent_as_it_was_shown_changes_nothing(value: Any) -> None:
    before = {member.name: value for member in MEMBERS}
    shown = Shown(members=MEMBERS, before=before)
    sent_back = {name: _as_browsers_send(str(text)) for name, text in shown.initial.items()}
    for name, field in shown.fields.items():
        if isinstance(field.widget, forms.Select):
            assert sent_back[name] in {_as_browsers_send(stated) for stated, _ in field.widget.choices}
    form = Shown(sent_back, members=MEMBERS, before=before)
    assert form.is_valid(), form.errors
    assert form.cleaned_data["payload"] == before


def _as_browsers_send(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def test_an_edited_field_is_stored_and_a_masked_one_kept(operator: Client, sent: list[Any]) -> None:
    failed = a_failed("doc:1")
    payload = {"host": "https://a.example/x?key=hidden1", "count": 3}
    Execution.objects.update(flow="forms.send", phase="prep", step="send", payload=payload)
    form = operator.get(own_page(failed)).context["offered"]["retry_with_payload"].form
    shown = {name: form.initial[name] for name in ("member-host", "member-count")}
    assert "hidden1" not in shown["member-host"]
    act = {"act": "retry_with_payload", "reason": "x", **shown, "member-count": "4"}
    text_of(operator.post(page("execution", failed.pk, view="action"), act, follow=True))
    again = Execution.objects.get()
    assert (again.state != State.FAILED, again.payload) == (True, {**payload, "count": 4})


def test_only_who_may_add_executions_enqueues(staff: Callable[..., Client]) -> None:
    viewer = staff("view_execution")
    assert viewer.get(enqueue_page()).status_code == 403
    assert enqueue(viewer, key="one", **typed(host="a", count="1")).status_code == 403
    assert enqueue_page() not in text_of(viewer.get(page("execution")))
    assert not Execution.objects.exists()
