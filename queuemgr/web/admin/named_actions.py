"""What is done to one limit, queue or worker from wherever its name is shown.

Each action has a page of its own, `…/limit/pause/?name=phase:prep`: what the thing is now, what follows, the
reason, one button; then back to where the person came from. So a link on the dashboard is two clicks from
done, without scripts. `…/limit/named/?name=…` is the page of the thing itself, a key's being its pattern's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import NON_FIELD_ERRORS, PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.utils.html import format_html_join
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_safe

from queuemgr.base.errors import BadInput, SluiceError
from queuemgr.operations.controls import Actor
from queuemgr.web.act_links import ACT_LINKS, act_link
from queuemgr.web.admin.read_only_admin import BaseAdmin, ExtraPage, actor_of, render_page
from queuemgr.web.links import address

Values = Mapping[str, Any]

LONGEST_ADDRESS = 2_000


class ReasonForm(forms.Form):
    reason = forms.CharField(
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs={"class": "vTextField", "autofocus": True}),
        help_text="Recorded in the audit log.",
    )


@dataclass(frozen=True)
class NamedAction:
    """`act` does it and returns what the person is to read; `explanation` is what follows."""

    verb: str
    explanation: str
    act: Callable[[str, Values, Actor], str]
    form: type[forms.Form] = ReasonForm
    initial: Callable[[str], Values] = lambda name: {}


class NamedAdmin(BaseAdmin):
    """Pages of rows that have a unique name, and what is done to one of them by its name."""

    named_actions: Sequence[NamedAction] = ()
    titles = {"acts": "actions"}
    reads_detail = True

    def verbs(self, row: Any) -> Iterable[str]:
        """What can be done to this row now, as its own page offers it."""
        return ()

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        row = super().get_object(request, *args, **kwargs)
        if row is not None:
            kind = str(self.opts.model_name)
            links = [act_link(request.user, kind, verb, str(row)) for verb in self.verbs(row)]
            row.acts = format_html_join(" ", "{}", ((each,) for each in links if each))
        return row

    def sentences(self, name: str) -> Sequence[str]:
        """What the thing of this name is now. Raises `BadInput` if there is none."""
        raise NotImplementedError

    def row_named(self, name: str) -> Any:
        """The row whose page is about this name, None if there is none."""
        return self.model._default_manager.filter(name=name).first()

    def pages(self) -> Iterable[ExtraPage]:
        yield from super().pages()
        stem = f"{self.opts.app_label}_{self.opts.model_name}"
        yield ExtraPage("named/", self.named_view, f"{stem}_named")
        for action in self.named_actions:
            view = partial(self.act_on_named, action=action)
            yield ExtraPage(f"{action.verb}/", view, f"{stem}_{action.verb}")

    @method_decorator(require_safe)
    def named_view(self, request: HttpRequest) -> HttpResponse:
        """The page of the thing of this name."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        stem, name = f"{self.opts.app_label}_{self.opts.model_name}", request.GET.get("name", "")
        if row := self.row_named(name):
            return redirect(address(f"{stem}_change", row.pk))
        return redirect(address(f"{stem}_changelist", q=name[:200]))

    @method_decorator(require_http_methods(["GET", "HEAD", "POST"]))
    def act_on_named(self, request: HttpRequest, action: NamedAction) -> HttpResponse:
        act = ACT_LINKS[str(self.opts.model_name), action.verb]
        if not request.user.has_perm(f"queuemgr.{act.permission}"):
            raise PermissionDenied
        name, back = request.GET.get("name", ""), self._back(request)
        try:
            now, initial = self.sentences(name), action.initial(name)
        except BadInput as error:
            messages.warning(request, str(error))
            return HttpResponseRedirect(back)
        form = action.form(request.POST if request.method == "POST" else None, initial={**initial})
        if form.is_valid() and self._done(request, action, name, form):
            return HttpResponseRedirect(back)
        context = {"act": act, "name": name, "now": now, "explanation": action.explanation}
        title = f"{act.label}: {name}"
        return render_page(
            request, "named_action", title=title, opts=self.opts, form=form, back=back, **context
        )

    def _done(self, request: HttpRequest, action: NamedAction, name: str, form: forms.Form) -> bool:
        """False, with the error at its field, if it is refused."""
        try:
            said = action.act(name, form.cleaned_data, actor_of(request))
        except ValidationError as error:
            for field, texts in _by_field(error).items():
                form.add_error(field if field in form.fields else None, texts)
            return False
        except SluiceError as error:
            form.add_error(None, str(error))
            return False
        messages.success(request, said)
        return True

    def _back(self, request: HttpRequest) -> str:
        """The page that the person came from, if it is one of this site's."""
        asked = request.POST.get("back") or request.headers.get("Referer", "")
        whole = asked.startswith(("/", "http")) and len(asked) < LONGEST_ADDRESS
        known = whole and url_has_allowed_host_and_scheme(asked, {request.get_host()}, request.is_secure())
        stem = f"{self.opts.app_label}_{self.opts.model_name}"
        return asked if known and request.path not in asked else address(f"{stem}_changelist")


def _by_field(error: ValidationError) -> Mapping[str, list[str]]:
    known = hasattr(error, "error_dict")
    return error.message_dict if known else {NON_FIELD_ERRORS: error.messages}
