"""Django's pages of users and groups, in the theme and with an audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import admin as of_django
from django.contrib.auth.models import Group, User
from django.http import HttpRequest
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from project.admin.audited_users import AuditedAdmin
from queuemgr.operations import giving

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
    _UserAdmin = of_django.UserAdmin[User]
else:
    from unfold.admin import ModelAdmin as _ModelAdmin

    _UserAdmin = of_django.UserAdmin

# Importing Django's module has registered its classes, which ours replace.
for model in (User, Group):
    admin.site.unregister(model)


class GivesWhatOneHas(_ModelAdmin):
    """Accounts and groups that hold more than the user are not edited, and nothing is given beyond that."""

    def may_edit(self, giver: User, row: Any) -> bool:
        raise NotImplementedError

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and self._reaches(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and self._reaches(request, obj)

    def _reaches(self, request: HttpRequest, obj: Any) -> bool:
        return obj is None or self.may_edit(_user_of(request), obj)

    def formfield_for_manytomany(self, db_field: Any, request: Any = None, **kwargs: Any) -> Any:
        if db_field.name in GIVABLE:
            kwargs["queryset"] = GIVABLE[db_field.name](_user_of(request))
        return super().formfield_for_manytomany(db_field, request, **kwargs)


GIVABLE = {
    "groups": giving.givable_groups,
    "permissions": giving.givable_permissions,
    "user_permissions": giving.givable_permissions,
}
"""What may be chosen in the fields of groups and permissions."""


def _user_of(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


@admin.register(User)
class UserAdmin(GivesWhatOneHas, AuditedAdmin, _UserAdmin, _ModelAdmin):
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_fullwidth = True
    search_help_text = "A name or an email address."
    filter_horizontal = ()
    """The widget with two boxes needs JavaScript; a multiple select does not."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Only superusers make superusers and give single permissions; who has a role may open the admin."""
        shielded = () if request.user.is_superuser else ("is_staff", "is_superuser", "user_permissions")
        return (*super().get_readonly_fields(request, obj), *shielded)

    def may_edit(self, giver: User, row: User) -> bool:
        return giving.may_edit_user(giver, row)


@admin.register(Group)
class GroupAdmin(GivesWhatOneHas, AuditedAdmin, of_django.GroupAdmin, _ModelAdmin):
    list_fullwidth = True
    search_help_text = "Part of a name."
    filter_horizontal = ()

    def may_edit(self, giver: User, row: Group) -> bool:
        return giving.may_edit_group(giver, row)
