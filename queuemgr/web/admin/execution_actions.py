"""What the admin offers to do with executions: a verb, who may, what it asks, and what it says after."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import QuerySet

from queuemgr.base.errors import BadInput
from queuemgr.flows import payload_validation
from queuemgr.flows.flow import HIGH, LOW, NORMAL
from queuemgr.models import UNFINISHED, UNSUCCESSFUL, Execution, Priority, State
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor

Rows = Iterable[Execution]
Verb = Callable[[QuerySet[Execution], Actor, Mapping[str, Any]], int]


class ActForm(forms.Form):
    """The reason, which the record of changes keeps."""

    reason = forms.CharField(
        required=False, max_length=200, help_text="Kept in the record of changes."
    )


class ReasonForm(ActForm):
    """A reason that must be given: what is done cannot be taken back."""

    reason = forms.CharField(max_length=200, help_text="Kept in the record of changes.")


class RunAfterForm(ActForm):
    when = forms.DateTimeField(
        label="Not before (UTC)",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"],
        help_text="As 2026-11-28 06:00. A time that has passed: as soon as it may.",
    )
    field_order = ("when", "reason")

    def clean_when(self) -> datetime:
        when: datetime = self.cleaned_data["when"]
        return when if when.tzinfo else when.replace(tzinfo=UTC)


class PriorityForm(ActForm):
    priority = forms.TypedChoiceField(choices=Priority.choices, coerce=int)
    field_order = ("priority", "reason")


class PayloadForm(ReasonForm):
    payload = forms.CharField(
        strip=False,
        widget=forms.Textarea(attrs={"rows": 12, "spellcheck": "false", "class": "sg-code"}),
        help_text="A JSON object.",
    )
    from_start = forms.BooleanField(
        required=False,
        label="from the start",
        help_text="What its steps learnt is forgotten; else it goes on from the step it stopped at.",
    )
    field_order = ("payload", "from_start", "reason")

    def clean_payload(self) -> dict[str, Any]:
        try:
            return payload_validation.parse(self.cleaned_data["payload"])
        except BadInput as error:
            raise forms.ValidationError(str(error)) from None


@dataclass(frozen=True)
class Act:
    """One verb as people meet it. `permission` is what they need, `states` those it can change;
    `asks` is the form to be filled in first, None where the verb is done at once; `bulk` is the verb of
    a bulk action that does the same with many."""

    name: str
    label: str
    permission: str
    states: Collection[str]
    verb: Verb
    became: str
    says: str = ""
    asks: type[ActForm] | None = None
    danger: bool = False
    bulk: str = ""
    sees: str = ""
    """What its form shows of the execution, which takes a permission of its own."""

    def allowed_to(self, user: AbstractBaseUser | AnonymousUser) -> bool:
        needed = [f"queuemgr.{codename}" for codename in (self.permission, self.sees) if codename]
        return bool(user.has_perms(needed))  # type: ignore[union-attr]  # every user of ours has permissions

    def told(self, changed: int) -> str:
        """`1,200 executions were cancelled or asked to stop.`"""
        noun = "execution was" if changed == 1 else "executions were"
        return f"{changed:,} {noun} {self.became}."


def rows(queryset: QuerySet[Execution]) -> Rows:
    """The chosen rows, of which the verbs only want the ids: never their payloads."""
    return queryset.select_related(None).only("pk").order_by("pk").iterator()


def _plain(verb: Callable[[Rows, Actor], int]) -> Verb:
    return lambda queryset, by, given: verb(rows(queryset), by)


def _shift(moves: Iterable[tuple[int, int]]) -> Verb:
    """Moves from one priority to the next, the far end first so that nothing is moved twice."""

    def shift(queryset: QuerySet[Execution], by: Actor, given: Mapping[str, Any]) -> int:
        unfinished = queryset.exclude(state=State.DONE)
        return sum(
            executions.set_priority(rows(unfinished.filter(priority=here)), there, by)
            for here, there in moves
        )

    return shift


def _prioritise(queryset: QuerySet[Execution], by: Actor, given: Mapping[str, Any]) -> int:
    return executions.set_priority(rows(queryset), given["priority"], by)


def _put_off(queryset: QuerySet[Execution], by: Actor, given: Mapping[str, Any]) -> int:
    return executions.set_run_after(rows(queryset), given["when"], by)


def _with_payload(queryset: QuerySet[Execution], by: Actor, given: Mapping[str, Any]) -> int:
    execution, payload = queryset.get(), given["payload"]
    return executions.retry_with_payload(execution, payload, by, from_start=given["from_start"])


ACTS = (
    Act(
        "retry", "Retry", "retry_execution", UNSUCCESSFUL, _plain(executions.retry), "told to go on",
        "Goes on from the step it stopped at.", bulk="retry",
    ),
    Act(
        "retry_from_start", "Retry from the start", "retry_execution", UNSUCCESSFUL,
        _plain(executions.retry_from_start), "told to begin anew",
        "Begins at the first step and forgets what the steps learnt. Files stay until a step makes "
        "them again; what was paid for may be paid for once more.",
        ReasonForm, danger=True, bulk="restart",
    ),
    Act(
        "cancel", "Cancel", "cancel_execution", UNFINISHED, _plain(executions.cancel),
        "cancelled or asked to stop",
        "What waits ends at once; what runs is asked to stop, which takes seconds.",
        ReasonForm, danger=True, bulk="cancel",
    ),
    Act(
        "skip", "Skip", "skip_execution", frozenset({State.WAITING, State.LEASED, State.FAILED}),
        _plain(executions.skip), "skipped",
        "Leaves out what waits, and what failed and nobody wants any more. What runs is left alone.",
        ReasonForm, danger=True, bulk="skip",
    ),
    Act(
        "raise_priority", "Raise priority", "prioritise_execution", UNFINISHED,
        _shift(((NORMAL, HIGH), (LOW, NORMAL))), "raised in priority", bulk="priority",
    ),
    Act(
        "lower_priority", "Lower priority", "prioritise_execution", UNFINISHED,
        _shift(((NORMAL, LOW), (HIGH, NORMAL))), "lowered in priority", bulk="priority",
    ),
    Act(
        "set_priority", "Set priority", "prioritise_execution", UNFINISHED, _prioritise,
        "given another priority", "Work under way keeps its slot.", PriorityForm, bulk="priority",
    ),
    Act(
        "run_after", "Run after", "prioritise_execution",
        frozenset({State.WAITING, State.LEASED}), _put_off, "given another time",
        "What waits starts no earlier; what runs is left alone.", RunAfterForm,
        bulk="reschedule",
    ),
    Act(
        "retry_with_payload", "Retry with an edited payload", "edit_payload", UNSUCCESSFUL, _with_payload,
        "told to go on with another payload", "", PayloadForm, danger=True,
        sees="view_payload",
    ),
)  # fmt: skip

BY_NAME: Mapping[str, Act] = {act.name: act for act in ACTS}

OF_A_LIST = tuple(act for act in ACTS if act.name not in ("set_priority", "retry_with_payload"))
"""Those offered for the rows of a list; the others are of one execution's own page."""

OF_A_PAGE = tuple(act for act in ACTS if act.name not in ("raise_priority", "lower_priority"))
