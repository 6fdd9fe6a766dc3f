"""A mixin that records changes of users and groups in the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from queuemgr.operations import users
from queuemgr.web.admin.read_only_admin import actor_of

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = object


class AuditedAdmin(_ModelAdmin):
    """To be listed before Django's classes for users and groups."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        found = type(obj)._default_manager.get(pk=obj.pk) if change else None
        obj.found = users.serialize(found) if found else {}
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Recorded here, since groups and permissions are saved last."""
        super().save_related(request, form, formsets, change)
        if "groups" in form.changed_data and not request.user.is_superuser:
            users.let_in_by_role(form.instance)
        users.record("edit" if change else "add", form.instance, form.instance.found, actor_of(request))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        users.record_removal(obj, actor_of(request))
        super().delete_model(request, obj)

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            users.record_removal(row, actor_of(request))
        super().delete_queryset(request, queryset)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """The audit log, which also has changes by commands."""
        row = self.get_object(request, object_id)
        if row is None or not self.has_view_or_change_permission(request, row):
            raise PermissionDenied
        changes = reverse("admin:queuemgr_auditentry_changelist")
        return redirect(f"{changes}?{urlencode({'target': users.target_of(row)})}")

    @transaction.atomic
    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        """Django's page to set another user's password; it redirects once the password is set."""
        page: HttpResponse = super().user_change_password(request, id, form_url)  # type: ignore[misc]  # of UserAdmin
        if request.method == "POST" and page.status_code == 302:
            users.record_password(User.objects.get(pk=id), actor_of(request))
        return page


@transaction.atomic
def own_password(request: HttpRequest) -> HttpResponse:
    """The admin's page where users set their own password."""
    page = admin.site.password_change(request)
    if request.method == "POST" and page.status_code == 302:
        users.record_password(User.objects.get(pk=str(request.user.pk)), actor_of(request))
    return page
