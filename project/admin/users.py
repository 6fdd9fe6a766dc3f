"""Django's pages of users and groups, in the theme and with an audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import admin as of_django
from django.contrib.auth.models import Group, User
from django.http import HttpRequest
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from project.admin.audited_users import AuditedAdmin

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
    _UserAdmin = of_django.UserAdmin[User]
else:
    from unfold.admin import ModelAdmin as _ModelAdmin

    _UserAdmin = of_django.UserAdmin

# Importing Django's module has registered its classes, which ours replace.
for model in (User, Group):
    admin.site.unregister(model)


class ShieldsSuperusers(_ModelAdmin):
    """Only superusers may make or edit superusers, or give single permissions: otherwise whoever may edit
    accounts could gain every permission, by setting a superuser's password for example."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        shielded = () if request.user.is_superuser else ("is_superuser", "user_permissions")
        return (*super().get_readonly_fields(request, obj), *shielded)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and _may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_touch(request, obj)


def _may_touch(request: HttpRequest, obj: User | None) -> bool:
    return bool(request.user.is_superuser or obj is None or not obj.is_superuser)


@admin.register(User)
class UserAdmin(ShieldsSuperusers, AuditedAdmin, _UserAdmin, _ModelAdmin):
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_fullwidth = True
    search_help_text = "A name or an email address."
    filter_horizontal = ()
    """The widget with two boxes needs JavaScript; a multiple select does not."""


@admin.register(Group)
class GroupAdmin(AuditedAdmin, of_django.GroupAdmin, _ModelAdmin):
    list_fullwidth = True
    search_help_text = "Part of a name."
    filter_horizontal = ()
