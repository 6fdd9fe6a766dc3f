"""Retry policies, with a preview of the waits they result in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Max
from django.http import HttpRequest, HttpResponse

from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.time_text import moment_text
from queuemgr.flows.flow import all_phases
from queuemgr.flows.retry_policy import Policy, backoff
from queuemgr.models import AuditEntry, RetryPolicy
from queuemgr.operations import controls
from queuemgr.reporting.failure_groups import trends
from queuemgr.scheduling import retry_budget, retry_policies
from queuemgr.scheduling.retry_policies import POLICY_FIELDS
from queuemgr.web.admin.read_only_admin import BaseAdmin, ReasonForm, actor_of
from queuemgr.web.links import address, link
from queuemgr.web.page_registry import page

PREVIEW = "_preview"
"""The button that previews the waits and saves nothing."""

SHOWN = ("kind", "for_phase", "meaning", "failed_lately", "last_changed")

NAMED = 6
"""Maximum number of waits that a preview lists."""


class PolicyForm(ReasonForm):
    class Meta:
        model = RetryPolicy
        fields = ("kind", "phase", *POLICY_FIELDS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is None:
            self.fields["phase"].help_text = "The row for every phase exists already."
            for name in POLICY_FIELDS:
                self.initial.pop(name, None)
                self.fields[name].initial = None
                self.fields[name].required = False
                self.fields[name].help_text += " Empty: as for every phase."

    def is_valid(self) -> bool:
        """False for a preview, which is validated and then shown instead of saved."""
        valid = super().is_valid()
        self.instance.previewed = valid and PREVIEW in self.data
        return valid and PREVIEW not in self.data

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if self.instance.pk is None and "kind" in values:
            self._fill_from_every_phase(values)
        return values

    def _fill_from_every_phase(self, values: dict[str, Any]) -> None:
        """Copy the fields left empty from the policy for every phase."""
        try:
            retry_policies.check(values["kind"], values.get("phase", ""))
        except BadInput as error:
            self.add_error("kind", ValidationError(str(error)))
            return
        policy = retry_policies.policy_for(values["kind"], "")
        for name in POLICY_FIELDS:
            if values.get(name) is None and name not in self.errors:
                values[name] = getattr(policy, name)


@page(RetryPolicy)
class RetryPolicyAdmin(BaseAdmin):
    form = PolicyForm
    list_display = (
        "kind", "for_phase", "tries", "base_seconds", "ceiling_seconds", "jitter_seconds", "waits",
        "failed_lately", "last_changed", "meaning",
    )  # fmt: skip
    titles = {
        "for_phase": "phase", "tries": "attempts", "base_seconds": "base", "ceiling_seconds": "ceiling",
        "jitter_seconds": "jitter", "failed_lately": "failed in 24 h", "last_changed": "last changed",
    }  # fmt: skip
    list_before_template = "admin/queuemgr/retry_budget.html"
    change_form_after_template = "admin/queuemgr/preview_policy.html"
    search_fields = ("kind",)
    sortable_by = ("kind", "base_seconds", "ceiling_seconds", "jitter_seconds")
    reads_detail = True
    has_history = True
    may_add = True

    def read_page(self, rows: Sequence[Any]) -> None:
        """`failed_lately`: failures of this kind in every phase."""
        changed = _last_changes([str(row) for row in rows])
        failed = {trend.kind: trend.total for trend in trends()}
        for row in rows:
            row.for_phase, row.tries = row.phase or "every phase", f"{row.max_attempts:,}"
            for name in ("base", "ceiling", "jitter"):
                seconds = f"{getattr(row, name):g} s" if row.max_attempts > 1 else ""
                setattr(row, f"{name}_seconds", seconds)
            row.failed_lately = f"{failed.get(row.kind, 0):,}"
            row.last_change = changed.get(str(row))
            row.last_changed = row.last_change and link(
                address("queuemgr_auditentry_change", row.last_change.pk),
                f"{moment_text(row.last_change.at)} by {row.last_change.actor}",
            )

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        budget = {"retry_budget": retry_budget.left(database_now())}
        return super().changelist_view(request, {**budget, **(extra_context or {})})

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Only rows for one phase can be deleted, one at a time."""
        return bool(obj and obj.phase and request.user.has_perm("queuemgr.delete_retrypolicy"))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ("kind", "phase", *POLICY_FIELDS, "waits", "reason")
        reason = ("reason",) if self.has_change_permission(request, obj) else ()
        return (*SHOWN, *POLICY_FIELDS, "waits", *reason)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return (*SHOWN, "waits") if obj else ("waits",)

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.name in ("kind", "phase"):
            names = retry_policies.kinds() if db_field.name == "kind" else all_phases()
            kwargs["widget"] = forms.Select(choices=[(name, name) for name in names])
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: RetryPolicy, form: PolicyForm, change: bool) -> None:
        values = form.changed_values(*POLICY_FIELDS)
        if values:
            obj.pk = controls.edit_policy(obj.kind, obj.phase, actor_of(request), **values).pk

    def delete_model(self, request: HttpRequest, obj: RetryPolicy) -> None:
        controls.delete_policy(obj.kind, obj.phase, actor_of(request))

    @admin.display(description="waits before retries")
    def waits(self, policy: Any) -> str:
        if policy.max_attempts is None:
            return "press Preview"
        waits = waits_of(Policy(policy.max_attempts, policy.base, policy.ceiling, policy.jitter))
        return f"{waits} (not saved yet)" if getattr(policy, "previewed", False) else waits


def _last_changes(names: Sequence[str]) -> dict[str, AuditEntry]:
    """The newest audit entry of each of these policies, by name."""
    theirs = AuditEntry.objects.filter(target__in=names, action__endswith="retry policy").order_by()
    newest = theirs.values("target").annotate(newest=Max("pk")).values("newest")
    return {change.target: change for change in AuditEntry.objects.filter(pk__in=newest)}


def waits_of(policy: Policy) -> str:
    """`5-10 s, 10-15 s, 20-25 s`: the backoff without and with its full jitter; equal waits once."""
    if policy.max_attempts < 2:
        return "never retried"
    waits: list[str] = []
    for attempt in range(1, policy.max_attempts):
        shortest = backoff(policy, attempt)
        left = policy.max_attempts - attempt
        if shortest >= policy.ceiling and left > 1:
            return ", ".join([*waits, f"{_span(shortest, policy.jitter)} each of {left} times"])
        if len(waits) == NAMED:
            longest = backoff(policy, policy.max_attempts - 1)
            return ", ".join([*waits, f"and so on to {_span(longest, policy.jitter)}"])
        waits.append(_span(shortest, policy.jitter))
    return ", ".join(waits)


def _span(shortest: float, jitter: float) -> str:
    return f"{shortest:g}-{shortest + jitter:g} s" if jitter else f"{shortest:g} s"
