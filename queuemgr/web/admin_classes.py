"""What our pages derive from: classes of the theme where a project has installed it, else Django's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.admin.widgets import AdminTextInputWidget

from queuemgr.web.look import has_theme

if TYPE_CHECKING:
    _DjangosModelAdmin = admin.ModelAdmin[Any]
else:
    _DjangosModelAdmin = admin.ModelAdmin


class PlainModelAdmin(_DjangosModelAdmin):
    """Django's, with the parts that our pages state in the theme's words; `admin/queuemgr/change_list.html`
    and `change_form.html` show them."""

    list_before_template: str | None = None
    list_after_template: str | None = None
    change_form_after_template: str | None = None
    change_form_outer_after_template: str | None = None


if TYPE_CHECKING:
    ModelAdmin = PlainModelAdmin
    LoginForm = AdminAuthenticationForm
    TextInput = AdminTextInputWidget
    Checkbox = forms.CheckboxInput
    Select = forms.Select
    Textarea = forms.Textarea
    BaseSite = admin.AdminSite
elif has_theme():
    from unfold.admin import ModelAdmin
    from unfold.forms import AuthenticationForm as LoginForm
    from unfold.sites import UnfoldAdminSite as BaseSite
    from unfold.widgets import UnfoldAdminSelectWidget as Select
    from unfold.widgets import UnfoldAdminTextareaWidget as Textarea
    from unfold.widgets import UnfoldAdminTextInputWidget as TextInput
    from unfold.widgets import UnfoldBooleanWidget as Checkbox
else:
    ModelAdmin = PlainModelAdmin
    LoginForm = AdminAuthenticationForm
    TextInput = AdminTextInputWidget
    Checkbox = forms.CheckboxInput
    Select = forms.Select
    Textarea = forms.Textarea
    BaseSite = admin.AdminSite
