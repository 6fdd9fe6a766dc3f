"""The actions on executions in the admin: form, function and messages of each; permissions and states are
those of the bulk action that does the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.db.models import QuerySet

from queuemgr.base.errors import BadInput, SluiceError
from queuemgr.flows import payload_validation
from queuemgr.flows.flow import HIGH, LOW, NORMAL
from queuemgr.models import UNSUCCESSFUL, Execution, Priority
from queuemgr.operations import executions
from queuemgr.operations.bulk.actions import ACTIONS
from queuemgr.operations.controls import Actor
from queuemgr.operations.user_model import User
from queuemgr.web.admin.payload_fields import TypedPayload
from queuemgr.web.admin.utc_field import UtcDateTimeField

Rows = Iterable[Execution]
Apply = Callable[[QuerySet[Execution], Actor, Mapping[str, Any]], int]


class ActionForm(forms.Form):
    reason = forms.CharField(required=False, max_length=200, help_text="Recorded in the audit log.")

    def refused(self, error: SluiceError) -> None:
        """Show why what was typed is refused."""
        self.add_error(None, str(error))


class ReasonRequiredForm(ActionForm):
    """For actions that cannot be undone."""

    reason = forms.CharField(max_length=200, help_text="Recorded in the audit log.")


class RunAfterForm(ActionForm):
    when = UtcDateTimeField(
        label="Not before (UTC)",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"],
        help_text="Format: 2026-11-28 06:00. A past time: as soon as possible.",
    )
    field_order = ("when", "reason")

    def clean_when(self) -> datetime:
        when: datetime = self.cleaned_data["when"]
        return when if when.tzinfo else when.replace(tzinfo=UTC)


class PriorityForm(ActionForm):
    priority = forms.TypedChoiceField(choices=Priority.choices, coerce=int)
    field_order = ("priority", "reason")


class PayloadForm(ReasonRequiredForm):
    payload = forms.CharField(
        strip=False,
        widget=forms.Textarea(attrs={"rows": 12, "spellcheck": "false", "class": "sg-code"}),
        help_text="A JSON object.",
    )
    from_start = forms.BooleanField(
        required=False,
        label="from the start",
        help_text="Discards the stored context; otherwise it continues at the step where it stopped.",
    )
    field_order = ("payload", "from_start", "reason")

    def clean_payload(self) -> dict[str, Any]:
        try:
            return payload_validation.parse(self.cleaned_data["payload"])
        except BadInput as error:
            raise forms.ValidationError(str(error)) from None

    def refused(self, error: SluiceError) -> None:
        self.add_error("payload", str(error))


class TypedPayloadForm(TypedPayload, ReasonRequiredForm):
    """Of fields made of the flow's payload types."""

    from_start = PayloadForm.declared_fields["from_start"]


@dataclass(frozen=True)
class ExecutionAction:
    """`states`: those it can change; `form`: to be filled in first (None: applied at once); `bulk`: the
    bulk action that does the same."""

    name: str
    label: str
    apply: Apply
    result: str
    description: str = ""
    form: type[ActionForm] | None = None
    danger: bool = False
    _: KW_ONLY
    permission: str
    states: Collection[str]
    bulk: str = ""
    also_needs: str = ""
    """A further permission, for what its form shows of the execution."""

    def allowed_to(self, user: User) -> bool:
        needed = [f"queuemgr.{codename}" for codename in (self.permission, self.also_needs) if codename]
        return bool(user.has_perms(needed))

    def message(self, changed: int) -> str:
        """`1,200 executions were cancelled, or cancellation was requested.`"""
        noun = "execution was" if changed == 1 else "executions were"
        return f"{changed:,} {noun} {self.result}."


def rows(queryset: QuerySet[Execution]) -> Rows:
    """The selected rows without their payloads: only their ids are needed."""
    return queryset.select_related(None).only("pk").order_by("pk").iterator()


def _plain(act: Callable[[Rows, Actor], int]) -> Apply:
    return lambda queryset, by, given: act(rows(queryset), by)


def _shift(moves: Iterable[tuple[int, int]]) -> Apply:
    """Moves from one priority to the next, the furthest first so that nothing is moved twice."""

    def shift(queryset: QuerySet[Execution], by: Actor, given: Mapping[str, Any]) -> int:
        return sum(
            executions.set_priority(rows(queryset.filter(priority=here)), there, by) for here, there in moves
        )

    return shift


def _with_payload(queryset: QuerySet[Execution], by: Actor, given: Mapping[str, Any]) -> int:
    execution, payload = queryset.get(), given["payload"]
    return executions.retry_with_payload(execution, payload, by, from_start=given["from_start"])


def _of(bulk: str, name: str, *args: Any, **kwargs: Any) -> ExecutionAction:
    """An action that the bulk action of this name does too: who may, and on which states, is stated there."""
    return ExecutionAction(
        name, *args, permission=ACTIONS[bulk].permission, states=ACTIONS[bulk].states, bulk=bulk, **kwargs
    )


EXECUTION_ACTIONS = (
    _of(
        "retry", "retry", "Retry", _plain(executions.retry), "retried",
        "Continues at the step where it stopped.",
    ),
    _of(
        "retry_from_start", "retry_from_start", "Retry from the start", _plain(executions.retry_from_start),
        "retried from the start",
        "Starts again at the first step and discards the stored context. Files stay until a step replaces "
        "them; paid requests may be made and paid for again.",
        ReasonRequiredForm, danger=True,
    ),
    _of(
        "cancel", "cancel", "Cancel", _plain(executions.cancel), "cancelled, or cancellation was requested",
        "A waiting execution ends at once; a running one is aborted by its worker within seconds.",
        ReasonRequiredForm, danger=True,
    ),
    _of(
        "skip", "skip", "Skip", _plain(executions.skip), "skipped",
        "Ends a waiting or failed execution without doing it. A running one is left unchanged.",
        ReasonRequiredForm, danger=True,
    ),
    _of(
        "priority", "raise_priority", "Raise priority", _shift(((NORMAL, HIGH), (LOW, NORMAL))),
        "raised in priority",
    ),
    _of(
        "priority", "lower_priority", "Lower priority", _shift(((NORMAL, LOW), (HIGH, NORMAL))),
        "lowered in priority",
    ),
    _of(
        "priority", "set_priority", "Set priority",
        lambda queryset, by, given: executions.set_priority(rows(queryset), given["priority"], by),
        "given another priority", "Running work keeps its slot; what has ended has it when it is retried.",
        PriorityForm,
    ),
    _of(
        "reschedule", "reschedule", "Reschedule",
        lambda queryset, by, given: executions.set_run_after(rows(queryset), given["when"], by),
        "rescheduled",
        "A waiting execution starts no earlier; a running one is left unchanged.", RunAfterForm,
    ),
    ExecutionAction(
        "retry_with_payload", "Retry with an edited payload", _with_payload,
        "retried with another payload", "", PayloadForm, danger=True,
        permission="edit_payload", also_needs="view_payload", states=UNSUCCESSFUL,
    ),
)  # fmt: skip

ACTIONS_BY_NAME = {act.name: act for act in EXECUTION_ACTIONS}

PAGE_ONLY, LIST_ONLY = ("set_priority", "retry_with_payload"), ("raise_priority", "lower_priority")
LIST_ACTIONS = tuple(act for act in EXECUTION_ACTIONS if act.name not in PAGE_ONLY)
PAGE_ACTIONS = tuple(act for act in EXECUTION_ACTIONS if act.name not in LIST_ONLY)
