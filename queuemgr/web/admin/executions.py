"""Executions: where each stands and why it waits, and everything a person may do with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.timesince import timesince
from django.views.decorators.http import require_POST

from queuemgr.base.errors import BadInput, SluiceError
from queuemgr.flows import payload_validation
from queuemgr.models import NOT_COUNTED_AS_ATTEMPT, Attempt, Execution
from queuemgr.reporting import explain
from queuemgr.web.admin import execution_page
from queuemgr.web.admin.attempts import step_text
from queuemgr.web.admin.execution_actions import BY_NAME, OF_A_LIST, Act, ActForm, PayloadForm
from queuemgr.web.admin.execution_filters import MatchingPage, asked_of, bulk_address
from queuemgr.web.admin.execution_page import Offered
from queuemgr.web.admin.read_only_admin import Page, ReadOnlyAdmin, actor_of

AT_ONCE = 1_000
"""Rows an action changes while its page is waited for; more are handed to a bulk action."""


@admin.register(Execution)
class ExecutionAdmin(ReadOnlyAdmin):
    list_display = (
        "key", "flow", "status", "at", "priority", "why", "tries", "error_kind", "age",
    )  # fmt: skip
    list_before_template = "admin/queuemgr/execution_filters.html"
    ordering = ("-id",)
    sortable_by = ()
    unlisted = ("payload", "context")
    recorded = True
    list_select_related = ("route",)

    class Media:
        css = {"all": ("queuemgr/executions.css",)}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[Page]:
        return MatchingPage

    def read_page(self, rows: Sequence[Any]) -> None:
        tries, reasons = _tries(rows), explain.reasons()
        for row in rows:
            row.why = reasons.of(row)
            row.tries = tries.get(row.pk, 0)
            row.age = timesince(row.created_at, reasons.now, depth=1)

    @admin.display(description="why it waits")
    def why(self, row: Any) -> str:
        return str(row.why)

    @admin.display(description="tries")
    def tries(self, row: Any) -> int:
        return int(row.tries)

    @admin.display(description="age")
    def age(self, row: Any) -> str:
        return str(row.age)

    @admin.display(description="step and limits")
    def at(self, row: Execution) -> str:
        return step_text(row, row.route.limit_keys if row.route else "")

    def get_actions(self, request: HttpRequest) -> Any:
        """Those this person may do, by the permission of each."""
        if "_popup" in request.GET:
            return {}
        mine = (act for act in OF_A_LIST if act.allowed_to(request.user))
        return {act.name: (_action(act), act.name, _label(act)) for act in mine}

    def act(
        self, request: HttpRequest, queryset: QuerySet[Execution], act: Act
    ) -> HttpResponse | None:
        """Do it with the chosen rows: at once, after its questions, or as a bulk action if many."""
        if not act.allowed_to(request.user):
            raise PermissionDenied
        if bulk := self._bulk_instead(request, queryset, act):
            return redirect(bulk)
        form = (act.asks or ActForm)(
            request.POST if "reason" in request.POST else None, label_suffix=""
        )
        if act.asks and not form.is_valid():
            return self._ask(request, queryset, act, form)
        given = form.cleaned_data if act.asks else {}
        self._do(request, queryset, act, given)
        return None

    def _bulk_instead(self, request: HttpRequest, queryset: QuerySet[Any], act: Act) -> str:
        """Where to go on with "all that match" when they are too many to be waited for."""
        across = request.POST.get("select_across") == "1"
        if not across or not act.bulk or not request.user.has_perm("queuemgr.add_bulkaction"):
            return ""
        many = queryset.order_by()[: AT_ONCE + 1].count() > AT_ONCE
        try:
            return bulk_address(asked_of(request), act.bulk) if many else ""
        except BadInput:
            return ""

    def _do(
        self, request: HttpRequest, queryset: QuerySet[Execution], act: Act, given: dict[str, Any]
    ) -> None:
        try:
            changed = act.verb(queryset, actor_of(request, given.get("reason", "")), given)
        except SluiceError as error:
            self.message_user(request, f"Stopped before the end: {error}", messages.ERROR)
            return
        level = messages.SUCCESS if changed else messages.WARNING
        self.message_user(request, act.told(changed), level)

    def _ask(
        self, request: HttpRequest, queryset: QuerySet[Execution], act: Act, form: ActForm
    ) -> HttpResponse:
        chosen = request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)
        across = request.POST.get("select_across") == "1"
        some = list(queryset.select_related(None).only("flow", "key")[: SAMPLE + 1])
        context = {
            **self.admin_site.each_context(request),
            "title": f"{act.label}: executions",
            "opts": self.opts,
            "act": act,
            "form": form,
            "some": some[:SAMPLE],
            "more": len(some) > SAMPLE,
            "count": "all that match" if across else len(chosen),
            "across": across,
            "chosen": chosen[:1] if across else chosen,
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
            "back": request.get_full_path(),
        }
        return TemplateResponse(request, "admin/queuemgr/action.html", context)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.act_view)
        name = "queuemgr_execution_act"
        return [path("<int:object_id>/act/", view, name=name), *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: Any = None,
    ) -> HttpResponse:
        execution = self._found(request, unquote(object_id))
        if execution is None:
            return self._gone(request, object_id)
        if request.method not in ("GET", "HEAD"):
            raise PermissionDenied
        return self._page(request, execution)

    @method_decorator(require_POST)
    def act_view(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """Do what a button of the page says; back to the page, or the page again with what is wrong."""
        execution, act = self._found(request, object_id), BY_NAME.get(request.POST.get("act", ""))
        if execution is None:
            return self._gone(request, object_id)
        if act is None or not act.allowed_to(request.user):
            raise PermissionDenied
        form = (act.asks or ActForm)(request.POST, auto_id=f"id_{act.name}_%s", label_suffix="")
        if not form.is_valid() or not self._done(request, execution, act, form):
            return self._page(request, execution, Offered(act, form))
        return redirect(self._address(execution))

    def _done(self, request: HttpRequest, execution: Execution, act: Act, form: ActForm) -> bool:
        """Do it; False, with the reason on the form, when what was typed cannot be used."""
        rows = Execution.objects.filter(pk=execution.pk)
        try:
            if isinstance(form, PayloadForm):
                payload = payload_validation.restore_masked(
                    form.cleaned_data["payload"], execution.payload
                )
                form.cleaned_data["payload"] = payload
            changed = act.verb(
                rows, actor_of(request, form.cleaned_data["reason"]), form.cleaned_data
            )
        except SluiceError as error:
            form.add_error("payload" if "payload" in form.fields else None, str(error))
            return False
        if changed:
            self.message_user(request, f"{execution} was {act.became}.", messages.SUCCESS)
        else:
            now = Execution.objects.get(pk=execution.pk)
            said = f"Nothing was changed: {execution} is {now.status} now."
            self.message_user(request, said, messages.WARNING)
        return True

    def _found(self, request: HttpRequest, pk: Any) -> Execution | None:
        execution: Execution | None = self.get_object(request, str(pk))
        if execution is not None and not self.has_view_permission(request, execution):
            raise PermissionDenied
        return execution

    def _gone(self, request: HttpRequest, pk: Any) -> HttpResponse:
        self.message_user(request, f"There is no execution {pk}.", messages.WARNING)
        return redirect("admin:queuemgr_execution_changelist")

    def _address(self, execution: Execution) -> str:
        return reverse("admin:queuemgr_execution_change", args=[execution.pk])

    def _page(
        self, request: HttpRequest, execution: Execution, typed: Offered | None = None
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": str(execution),
            "opts": self.opts,
            "act_address": reverse("admin:queuemgr_execution_act", args=[execution.pk]),
            **execution_page.told_of(execution, request.user, typed),
        }
        return TemplateResponse(request, "admin/queuemgr/execution.html", context)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("route", "batch", "lease__worker")


SAMPLE = 10
"""How many of the chosen rows the page between names."""


def _action(act: Act) -> Any:
    def run(admin: ExecutionAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        return admin.act(request, queryset, act)

    return run


def _label(act: Act) -> str:
    return f"{act.label}…" if act.asks else act.label


def _tries(rows: Sequence[Execution]) -> dict[int, int]:
    """Tries of the step each stands at, since it came there or a person last retried it."""
    at_its_step = {"phase": F("execution__phase"), "step": F("execution__step")}
    tried = (
        Attempt.objects.filter(execution__in=[row.pk for row in rows], **at_its_step)
        .filter(leased_at__gte=F("execution__attempts_counted_since"))
        .exclude(outcome__in=NOT_COUNTED_AS_ATTEMPT)
    )
    return dict(tried.order_by().values_list("execution_id").annotate(n=Count("pk")))
