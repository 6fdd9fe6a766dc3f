"""Pausing and resuming rows of a list; the reason for a pause is asked on a page of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.enqueue import check_horizon
from queuemgr.models import Pausable
from queuemgr.operations import controls
from queuemgr.web.admin.named_actions import NamedAction, ReasonForm
from queuemgr.web.admin.read_only_admin import BaseAdmin, actor_of, render_page
from queuemgr.web.admin.utc_field import UtcDateTimeField

PAUSE_EXPLAINED = "Nothing more starts through these until they are resumed; running work continues."


class PauseForm(forms.Form):
    reason = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs={"class": "vTextField", "autofocus": True}),
        help_text="Shown as the reason why work waits.",
    )
    until = UtcDateTimeField(
        required=False,
        label="Until (UTC)",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
        help_text="End of the pause; empty: until resumed.",
    )

    def clean_until(self) -> Any:
        until = self.cleaned_data["until"]
        if until is not None and until <= database_now():
            raise ValidationError("This time has passed.")
        try:
            check_horizon("until", until or database_now())
        except BadInput as error:
            raise ValidationError(str(error)) from None
        return until


PAUSE_IT_EXPLAINED = "Nothing more starts through it until it is resumed; running work continues."
RESUME_EXPLAINED = "What waits only for this starts as slots become free."


def _pause(name: str, given: Mapping[str, Any], by: controls.Actor) -> str:
    controls.pause(name, by, given["until"])
    return f"Paused: {name}."


def _resume(name: str, given: Mapping[str, Any], by: controls.Actor) -> str:
    controls.resume(name, by)
    return f"Resumed: {name}."


PAUSE_AND_RESUME = (
    NamedAction("pause", PAUSE_IT_EXPLAINED, _pause, PauseForm),
    NamedAction("resume", RESUME_EXPLAINED, _resume, ReasonForm),
)
"""What is done to a limit or a queue by its name."""


class PausingAdmin(BaseAdmin):
    """A list of rows that can be paused and resumed."""

    actions: Any = ("pause", "resume")
    titles = {"paused": "paused"}
    has_history = True

    operations: Any = controls
    """The module whose `pause` and `resume` take the name of a row."""

    def has_pause_permission(self, request: HttpRequest) -> bool:
        """The permission `pause_queue`, `pause_limit` and so on."""
        return bool(request.user.has_perm(f"queuemgr.pause_{self.opts.model_name}"))

    def read_page(self, rows: Any) -> None:
        now = database_now()
        for row in rows:
            row.paused = row.pause_sentence() if row.is_paused(now) else ""

    @admin.action(description="Pause…", permissions=["pause"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Pausable]) -> HttpResponse | None:
        form = PauseForm(request.POST if "reason" in request.POST else None)
        if not form.is_valid():
            context = {"form": form, "rows": queryset, "checkbox": helpers.ACTION_CHECKBOX_NAME}
            title = f"Pause {self.opts.verbose_name_plural}"
            shown = {"title": title, "verb": "Pause", "explanation": PAUSE_EXPLAINED}
            return render_page(request, "stop_with_reason", opts=self.opts, **shown, **context)
        for name in _names(queryset):
            self.operations.pause(name, actor_of(request), form.cleaned_data["until"])
        self.message_user(request, f"Paused: {', '.join(_names(queryset))}.")
        return None

    @admin.action(description="Resume", permissions=["pause"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Pausable]) -> None:
        names = _names(queryset.filter(paused_at__isnull=False))
        for name in names:
            self.operations.resume(name, actor_of(request))
        text = f"Resumed: {', '.join(names)}." if names else "None of these was paused."
        self.message_user(request, text, messages.SUCCESS if names else messages.WARNING)


def _names(queryset: QuerySet[Any]) -> list[str]:
    return list(queryset.order_by("name").values_list("name", flat=True))
