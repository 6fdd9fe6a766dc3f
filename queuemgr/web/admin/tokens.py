"""API tokens: creating them with the secret shown once, listing and revoking them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet, prefetch_related_objects
from django.http import HttpRequest, HttpResponse

from queuemgr.base.errors import BadInput
from queuemgr.base.rate import parse_rate
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import ApiToken
from queuemgr.operations import api_tokens, user_model
from queuemgr.operations.api_tokens import SCOPES
from queuemgr.web.admin.read_only_admin import ReadOnlyAdmin, ReasonForm, actor_of, render_page
from queuemgr.web.admin.utc_field import UtcDateTimeField
from queuemgr.web.admin_classes import TextInput
from queuemgr.web.page_registry import page


class TokenForm(ReasonForm):
    scopes = forms.MultipleChoiceField(
        choices=[(scope, f"{scope}: {meaning}") for scope, meaning in SCOPES.items()],
        widget=forms.CheckboxSelectMultiple,
        initial=["read"],
        help_text="What it may do, within its owner's permissions.",
    )
    expires_at = UtcDateTimeField(
        required=False,
        label="Expires (UTC)",
        widget=TextInput(attrs={"type": "datetime-local"}),
        help_text="Empty: never. It can be revoked at any time.",
    )

    class Meta:
        model = ApiToken
        fields = ("name", "owner", "scopes", "rate", "expires_at")
        help_texts = {
            "name": "Its purpose, such as the program that uses it.",
            "rate": "Rate limit. Format: 600/minute or 10/s burst 50; empty: none.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "rate" in self.fields:
            self.fields["rate"].required = False

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if not name.isprintable():
            raise ValidationError("Use printable characters only.")
        return name

    def clean_rate(self) -> str:
        rate = str(self.cleaned_data["rate"])
        try:
            parse_rate(rate, at_once=True)
        except BadInput as error:
            raise ValidationError(str(error)) from None
        return rate

    def clean_expires_at(self) -> Any:
        end = self.cleaned_data["expires_at"]
        if end is not None and end <= database_now():
            raise ValidationError("This time has passed.")
        return end


@page(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    form = TokenForm
    list_display = ("name", "owner", "scopes_given", "rate", "used_at", "expires_at", "state")
    list_select_related = ()  # owners may be in another database
    search_fields = ("name",)
    sortable_by = ()
    actions = ("revoke",)
    has_history = True
    may_add = True
    reads_detail = True
    titles = {"scopes_given": "scopes", "state": "state"}
    shown = (*list_display[:4], "created_at", *list_display[4:])

    def read_page(self, rows: Sequence[Any]) -> None:
        now = database_now()
        prefetch_related_objects(rows, "owner")
        for row in rows:
            row.scopes_given = ", ".join(row.scopes)
            row.state = api_tokens.blocking_reasons(row, now) or "valid"

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.shown if obj else (*TokenForm.Meta.fields, "reason")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.shown if obj else ()

    def formfield_for_foreignkey(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        """A token has its owner's permissions, so only a superuser may create one for another user."""
        if db_field.name == "owner":
            people = user_model.active()
            own = people if request.user.is_superuser else people.filter(pk=request.user.pk)
            kwargs |= {"queryset": own, "initial": request.user.pk}
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """With one save button, since the page with the secret always follows."""
        others = {"show_save_and_continue": False, "show_save_and_add_another": False}
        return super().add_view(request, form_url, {**others, **(extra_context or {})})

    def save_model(self, request: HttpRequest, obj: ApiToken, form: TokenForm, change: bool) -> None:
        values = form.cleaned_data
        made, secret = api_tokens.make(
            values["name"], values["owner"], values["scopes"], actor_of(request),
            rate=values["rate"], expires_at=values["expires_at"],
        )  # fmt: skip
        obj.pk = made.pk
        request.secret = secret  # type: ignore[attr-defined]  # for the one page that shows it

    def response_add(
        self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        """The page with the secret, as the response to the POST: the secret is stored nowhere."""
        secret = request.secret  # type: ignore[attr-defined]  # set by `save_model`
        context = {"title": f"Token {obj.name}", "token": obj, "secret": secret}
        return render_page(request, "token_created", opts=self.opts, **context)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("queuemgr.change_apitoken"))

    @admin.action(description="Revoke", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        revoked = api_tokens.revoke(queryset, actor_of(request))
        text = f"Revoked: {', '.join(revoked)}." if revoked else "All of these were revoked already."
        self.message_user(request, text, messages.SUCCESS if revoked else messages.WARNING)
