"""Users and groups as Django has them, in the theme, with what is done to them recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import admin as of_django
from django.contrib.auth.models import Group, User
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from queuemgr.admin.recorded_people import RecordsPeople

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
    _UserAdmin = of_django.UserAdmin[User]
else:
    from unfold.admin import ModelAdmin as _ModelAdmin

    _UserAdmin = of_django.UserAdmin

# Importing Django's module has entered its classes; ours take their places.
for model in (User, Group):
    admin.site.unregister(model)


@admin.register(User)
class UserAdmin(RecordsPeople, _UserAdmin, _ModelAdmin):
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_fullwidth = True
    search_help_text = "A name or an address of mail."
    filter_horizontal = ()
    """Choosing in two boxes needs JavaScript; one box with many marked does not."""


@admin.register(Group)
class GroupAdmin(RecordsPeople, of_django.GroupAdmin, _ModelAdmin):
    list_fullwidth = True
    search_help_text = "A part of a name."
    filter_horizontal = ()
