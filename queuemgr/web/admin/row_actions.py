"""What is done to one row by the forms of its own page: each is posted to an address of its own, which leads
back to the page with a message, or shows it again with what is wrong in the form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from queuemgr.base.errors import SluiceError
from queuemgr.operations.controls import Actor
from queuemgr.web.admin.pausing import PauseForm, PausingAdmin
from queuemgr.web.admin.read_only_admin import BaseAdmin, ExtraPage, actor_of, render_page
from queuemgr.web.links import address

Posted = Callable[[HttpRequest, Any], forms.BaseForm]
"""The form as it was posted for a row. May raise `PermissionDenied`."""


def edit_of(form: type[forms.BaseModelForm[Any]]) -> Posted:
    """A form of the row's own fields, which it sets on a copy: the page shows the row as it is stored."""
    return lambda request, row: form(request.POST, instance=copy(row))


def form_page(
    admin: BaseAdmin, name: str, right: str, posted: Posted, act: Callable[[HttpRequest, Any, Any], str]
) -> ExtraPage:
    """Do what a form says, which the page has as `NAME_form`; `act` returns what the person is to read."""

    @require_POST
    def view(request: HttpRequest, pk: int) -> HttpResponse:
        row = _row(admin, request, pk, right)
        form = posted(request, row)
        if not form.is_valid():
            context = {**admin.own_context(request, row), f"{name}_form": form}
            return render_page(request, admin.own_page, opts=admin.opts, **context)
        return _done(admin, request, row, lambda: act(request, row, form))

    return ExtraPage(f"<int:pk>/{name}/", view, f"{admin.opts.model_name}_{name}")


def button_page(admin: BaseAdmin, name: str, right: str, act: Callable[[Any, Actor], str]) -> ExtraPage:
    """Do what a button says; its form has nothing but a reason."""

    @require_POST
    def view(request: HttpRequest, pk: int) -> HttpResponse:
        row = _row(admin, request, pk, right)
        return _done(admin, request, row, lambda: act(row, actor_of(request)))

    return ExtraPage(f"<int:pk>/{name}-it/", view, f"{admin.opts.model_name}_{name}")


def pausing_pages(admin: PausingAdmin, paused: str, resumed: str) -> Iterator[ExtraPage]:
    """Pause a row and resume it; the texts say what follows."""

    def pause(request: HttpRequest, row: Any, form: PauseForm) -> str:
        admin.operations.pause(row.name, actor_of(request), form.cleaned_data["until"])
        return f"Paused: {paused}"

    def resume(row: Any, by: Actor) -> str:
        admin.operations.resume(row.name, by)
        return f"Resumed: {resumed}"

    yield form_page(admin, "pause", "pause", lambda request, row: PauseForm(request.POST), pause)
    yield button_page(admin, "resume", "pause", resume)


def _row(admin: BaseAdmin, request: HttpRequest, pk: int, right: str) -> Any:
    row = admin.model._default_manager.filter(pk=pk).first()
    if row is None or not request.user.has_perm(f"queuemgr.{right}_{admin.opts.model_name}"):
        raise PermissionDenied
    return row


def _done(admin: BaseAdmin, request: HttpRequest, row: Any, act: Callable[[], str]) -> HttpResponse:
    try:
        messages.success(request, act())
    except SluiceError as error:
        messages.error(request, str(error))
    pages = f"{admin.opts.app_label}_{admin.opts.model_name}"
    if not admin.model._default_manager.filter(pk=row.pk).exists():
        return redirect(address(f"{pages}_changelist"))
    return redirect(address(f"{pages}_change", row.pk))
