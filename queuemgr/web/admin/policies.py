"""Retry policies: how each kind of error is tried again, and what that comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Max, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html

from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import all_phases
from queuemgr.flows.retry_policy import Policy, backoff
from queuemgr.models import AuditEntry, RetryPolicy
from queuemgr.operations import controls
from queuemgr.reporting.failure_groups import trends
from queuemgr.scheduling import retry_budget, retry_policies
from queuemgr.scheduling.retry_policies import POLICY_FIELDS
from queuemgr.web.admin.read_only_admin import KeptAdmin, actor_of
from queuemgr.web.admin.reason_form import ReasonForm

PREVIEW = "_preview"
"""The button that shows what figures come to, and saves nothing."""

NAMED = 6
"""How many waits a preview spells out."""


class PolicyForm(ReasonForm):
    class Meta:
        model = RetryPolicy
        fields = ("kind", "phase", *POLICY_FIELDS)

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        if self.instance.pk is None:
            self.fields["phase"].help_text = "Every phase together has its row already."
            for name in POLICY_FIELDS:
                self.initial.pop(name, None)
                self.fields[name].initial = None
                self.fields[name].required = False
                self.fields[name].help_text += " Empty: as for every phase."

    def is_valid(self) -> bool:
        """A preview is checked as if it were to be saved, and shown instead."""
        valid = super().is_valid()
        self.instance.previewed = valid and PREVIEW in self.data
        return valid and PREVIEW not in self.data

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if self.instance.pk is None and "kind" in given:
            self._as_for_every_phase(given)
        return given

    def _as_for_every_phase(self, given: dict[str, Any]) -> None:
        """A new row takes the figures left empty from the row its kind goes by so far."""
        try:
            retry_policies.check(given["kind"], given.get("phase", ""))
        except BadInput as error:
            self.add_error("kind", ValidationError(str(error)))
            return
        policy = retry_policies.policy_for(given["kind"], "")
        for name in POLICY_FIELDS:
            if given.get(name) is None and name not in self.errors:
                given[name] = getattr(policy, name)


@admin.register(RetryPolicy)
class RetryPolicyAdmin(KeptAdmin):
    form = PolicyForm
    list_display = (
        "kind", "for_phase", "tries", "base_seconds", "ceiling_seconds", "jitter_seconds", "waits",
        "failed_lately", "last_changed", "meaning",
    )  # fmt: skip
    list_before_template = "admin/queuemgr/retry_budget.html"
    change_form_after_template = "admin/queuemgr/preview_policy.html"
    search_fields = ("kind",)
    sortable_by = ()
    recorded = True

    def read_page(self, rows: Sequence[Any]) -> None:
        changed = _last_changes([str(row) for row in rows])
        failed = {trend.kind: trend.total for trend in trends()}
        for row in rows:
            row.last_change = changed.get(str(row))
            row.failed_lately = failed.get(row.kind, 0)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        budget = {"retry_budget": retry_budget.left(database_now())}
        return super().changelist_view(request, {**budget, **(extra_context or {})})

    def get_object(self, request: HttpRequest, *given: Any, **named: Any) -> Any:
        policy = super().get_object(request, *given, **named)
        if policy is not None:
            self.read_page([policy])
        return policy

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("queuemgr.add_retrypolicy"))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """The rows for every phase stay; those for one phase may go, one at a time."""
        held = bool(request.user.has_perm("queuemgr.delete_retrypolicy"))
        return held and obj is not None and bool(obj.phase)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        figures = ("kind", "phase", *POLICY_FIELDS)
        if obj is None:
            return (*figures, "waits", "reason")
        reason = ("reason",) if self.has_change_permission(request, obj) else ()
        standing = ("kind", "for_phase", "meaning", "failed_lately", "last_changed")
        return (*standing, *POLICY_FIELDS, "waits", *reason)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        standing = ("kind", "for_phase", "meaning", "failed_lately", "last_changed", "waits")
        return standing if obj else ("waits",)

    def formfield_for_dbfield(self, db_field: Any, request: Any, **given: Any) -> Any:
        if db_field.name in ("kind", "phase"):
            names = retry_policies.kinds() if db_field.name == "kind" else all_phases()
            given["widget"] = forms.Select(choices=[(name, name) for name in names])
        return super().formfield_for_dbfield(db_field, request, **given)

    def save_model(
        self, request: HttpRequest, obj: RetryPolicy, form: PolicyForm, change: bool
    ) -> None:
        figures = form.figures(*POLICY_FIELDS)
        if figures:
            why = actor_of(request, form.cleaned_data["reason"])
            obj.pk = controls.edit_policy(obj.kind, obj.phase, why, **figures).pk

    def delete_model(self, request: HttpRequest, obj: RetryPolicy) -> None:
        controls.delete_policy(obj.kind, obj.phase, actor_of(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[RetryPolicy]) -> None:
        for policy in queryset:
            self.delete_model(request, policy)

    @admin.display(description="phase")
    def for_phase(self, policy: RetryPolicy) -> str:
        return policy.phase or "every phase"

    @admin.display(description="tries")
    def tries(self, policy: RetryPolicy) -> str:
        return f"{policy.max_attempts:,}"

    @admin.display(description="base", empty_value="")
    def base_seconds(self, policy: RetryPolicy) -> str:
        return _seconds(policy, policy.base)

    @admin.display(description="ceiling", empty_value="")
    def ceiling_seconds(self, policy: RetryPolicy) -> str:
        return _seconds(policy, policy.ceiling)

    @admin.display(description="jitter", empty_value="")
    def jitter_seconds(self, policy: RetryPolicy) -> str:
        return _seconds(policy, policy.jitter)

    @admin.display(description="waits before the next tries")
    def waits(self, policy: Any) -> str:
        if policy.max_attempts is None:
            return "press Preview"
        said = waits_of(Policy(policy.max_attempts, policy.base, policy.ceiling, policy.jitter))
        return f"{said} (not saved yet)" if getattr(policy, "previewed", False) else said

    @admin.display(description="failed in 24 h")
    def failed_lately(self, policy: Any) -> str:
        """Of its kind, in every phase."""
        return f"{policy.failed_lately:,}"

    @admin.display(description="last changed", empty_value="")
    def last_changed(self, policy: Any) -> str:
        change = policy.last_change
        if change is None:
            return ""
        page = reverse("admin:queuemgr_auditentry_change", args=[change.pk])
        said = f"{change.at:%Y-%m-%d %H:%M} by {change.actor}"
        return format_html('<a href="{}">{}</a>', page, said)


def _last_changes(names: Sequence[str]) -> dict[str, AuditEntry]:
    """The newest change of each of these policies, by its name."""
    theirs = AuditEntry.objects.filter(target__in=names, action__endswith="retry policy").order_by()
    newest = theirs.values("target").annotate(newest=Max("pk")).values("newest")
    return {change.target: change for change in AuditEntry.objects.filter(pk__in=newest)}


def _seconds(policy: RetryPolicy, seconds: float) -> str:
    """Nothing where no try follows that could wait."""
    return f"{seconds:g} s" if policy.max_attempts > 1 else ""


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
