"""Payloads in forms made of their flow's types: enqueued from the admin, and edited for another run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from django import forms
from django.test import Client
from django.urls import reverse
from django.utils.html import escape
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    WithJsonSchema,
    create_model,
)

from queuemgr.flows import flow
from queuemgr.flows.flow import Flow, Phase, Step
from queuemgr.models import AuditEntry, Execution, State
from queuemgr.web.admin.payload_fields import TypedPayload
from queuemgr.web.admin.payload_members import Member, members_in
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


class Node(BaseModel):
    """Its schema is a reference at the top."""

    name: str
    below: list[Node] = []
    other: Node | None = None


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]
    barks: bool = True


class Size(IntEnum):
    SMALL = 1


class Whatever:
    """A type of an application."""


class OfClass(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    it: Whatever | None = None


class Unfinished(BaseModel):
    it: NeverDefined  # type: ignore[name-defined]  # noqa: F821  # which is what is tried


class OwnSchema(BaseModel):
    a: int = 0

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> Any:
        raise RuntimeError("no schema of mine")


class StrangeSchema(BaseModel):
    a: Annotated[int, WithJsonSchema({"type": ["integer", "null"], "enum": [{"b": 1}, [2]]})] = 0
    b: Annotated[int, WithJsonSchema({"$ref": "#/$defs/Nowhere"})] = 0
    c: Annotated[int, WithJsonSchema({"allOf": [{"type": "integer"}]})] = 0


TYPES: list[Any] = [
    str, int | str, Literal["a", 1, True], Literal["only"], Size, Node, list[list[Node]],
    dict[str, list[int]],
    Annotated[int, Field(gt=0, le=5)], Annotated[str, Field(alias="other name")],
    Annotated[str, Field(validation_alias=AliasChoices("x", "y"))],
    Annotated[str, Field(validation_alias=AliasPath("x", 0))],
    Annotated[Cat | Dog, Field(discriminator="kind")], Cat | Dog | None, datetime, Decimal, UUID, bytes,
    set[int], tuple[int, str], Any, Size | None, SecretStr, complex, re.Pattern, Callable[[], int],
]  # fmt: skip
MODELS: list[Any] = [
    Node, OfClass, Unfinished, OwnSchema, StrangeSchema, create_model("Empty"), RootModel[list[int]],
    RootModel[dict[str, int]], RootModel[Node], RootModel[Cat | Dog],
    *(create_model(f"Model{n}", value=(each, ...)) for n, each in enumerate(TYPES)),
    *(create_model(f"Default{n}", value=(each, object())) for n, each in enumerate(TYPES)),
]  # fmt: skip


def test_every_model_has_fields_or_a_sentence() -> None:
    for model in MODELS:
        found, why_not = members_in(model)
        assert (found is None) == bool(why_not), model
        given = typed(**{one.name: value for one in found or () for value in ('{"a": [1]}',)})
        form = Shown(given, members=found or [], before={"value": {"a": 1}})
        assert form.is_valid() or form.errors, model
        assert str(form)


@pytest.mark.parametrize(
    "model", [Node, OfClass, Unfinished, OwnSchema, StrangeSchema, RootModel[Cat | Dog]],
    ids=lambda model: model.__name__,
)  # fmt: skip
def test_the_page_has_fields_or_an_editor_with_a_sentence(model: Any, operator: Client) -> None:
    found, why_not = members_in(model)
    phase = Phase("prep", rank=2, waiting="pending", running="prepping", steps=(Step("send", "forms.send"),))
    flow._flows["forms.send"] = Flow("forms.send", (phase,), payload_model=lambda: model)
    shown = text_of(operator.get(enqueue_page(), {"flow": "forms.send"}))
    if found is None:
        assert 'name="payload"' in shown and escape(why_not) in shown
    else:
        assert all(f'name="member-{escape(one.name)}"' in shown for one in found)
    sent_in = enqueue(operator, key="one", payload='{"value": [{}]}', **typed(a="[{}]", name="x", it="{}"))
    assert sent_in.status_code in (200, 400)


def test_a_recursive_model_has_fields_of_its_types() -> None:
    found, _ = members_in(Node)
    assert [(one.name, one.kind, one.required) for one in found or ()] == [
        ("name", "string", True), ("below", "array", False), ("other", "object", False),
    ]  # fmt: skip
