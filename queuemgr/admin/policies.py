"""Retry policies: how each kind of error is tried again, and what that comes to."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest

from queuemgr import controls, policies
from queuemgr.admin.read_only import KeptAdmin, by
from queuemgr.admin.reason import ReasonForm
from queuemgr.errors import BadInput
from queuemgr.flow import all_phases
from queuemgr.models import RetryPolicy
from queuemgr.policies import FIGURES
from queuemgr.retry import Policy, backoff

NAMED = 6
"""How many waits a preview spells out."""


class PolicyForm(ReasonForm):
    class Meta:
        model = RetryPolicy
        fields = ("kind", "phase", *FIGURES)

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        try:
            policies.check(given.get("kind", self.instance.kind), given.get("phase", ""))
        except BadInput as error:
            self.add_error("kind" if "kind" in given else None, ValidationError(str(error)))
        return given


@admin.register(RetryPolicy)
class RetryPolicyAdmin(KeptAdmin):
    form = PolicyForm
    list_display = (
        "kind", "for_phase", "max_attempts", "base", "ceiling", "jitter", "waits", "meaning",
    )  # fmt: skip
    search_fields = ("kind",)
    sortable_by = ()
    recorded = True

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("queuemgr.add_retrypolicy"))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """The rows for every phase stay; those for one phase may go, one at a time."""
        held = bool(request.user.has_perm("queuemgr.delete_retrypolicy"))
        return held and obj is not None and bool(obj.phase)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        figures = ("kind", "phase", *FIGURES)
        if obj is None:
            return (*figures, "reason")
        reason = ("reason",) if self.has_change_permission(request, obj) else ()
        return ("kind", "phase", "meaning", "waits", *FIGURES, *reason)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("kind", "phase", "meaning", "waits") if obj else ()

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """A new row begins with the figures its kind goes by so far: `?kind=timeout`."""
        asked = super().get_changeform_initial_data(request)
        kind = str(asked.get("kind", ""))
        if kind not in policies.kinds():
            return {"phase": asked.get("phase", "")}
        policy = policies.policy_for(kind, "")
        return {**{name: getattr(policy, name) for name in FIGURES}, **asked}

    def formfield_for_dbfield(self, db_field: Any, request: Any, **given: Any) -> Any:
        if db_field.name == "phase":
            choices = [("", "every phase"), *((name, name) for name in all_phases())]
            given["widget"] = forms.Select(choices=choices)
        return super().formfield_for_dbfield(db_field, request, **given)

    def save_model(
        self, request: HttpRequest, obj: RetryPolicy, form: PolicyForm, change: bool
    ) -> None:
        figures = form.figures(*FIGURES)
        if figures:
            why = by(request, form.cleaned_data["reason"])
            obj.pk = controls.edit_policy(obj.kind, obj.phase, why, **figures).pk

    def delete_model(self, request: HttpRequest, obj: RetryPolicy) -> None:
        controls.delete_policy(obj.kind, obj.phase, by(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[RetryPolicy]) -> None:
        for policy in queryset:
            self.delete_model(request, policy)

    @admin.display(description="phase")
    def for_phase(self, policy: RetryPolicy) -> str:
        return policy.phase or "every phase"

    @admin.display(description="waits before the next tries")
    def waits(self, policy: RetryPolicy) -> str:
        return waits_of(Policy(policy.max_attempts, policy.base, policy.ceiling, policy.jitter))


def waits_of(policy: Policy) -> str:
    """`5-10 s, 10-15 s, 20-25 s`: from the backoff alone to the backoff with all of its jitter.

    The same wait over and over is said once.
    """
    if policy.max_attempts < 2:
        return "never tried again"
    said: list[str] = []
    for attempt in range(1, policy.max_attempts):
        shortest = backoff(policy, attempt)
        left = policy.max_attempts - attempt
        if shortest >= policy.ceiling and left > 1:
            return ", ".join([*said, f"{_span(shortest, policy.jitter)} each of {left} times"])
        if len(said) == NAMED:
            longest = backoff(policy, policy.max_attempts - 1)
            return ", ".join([*said, f"and so on to {_span(longest, policy.jitter)}"])
        said.append(_span(shortest, policy.jitter))
    return ", ".join(said)


def _span(shortest: float, jitter: float) -> str:
    return f"{shortest:g}-{shortest + jitter:g} s" if jitter else f"{shortest:g} s"
