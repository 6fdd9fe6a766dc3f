"""Executions: their state, why they wait, and the actions on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.admin import helpers
from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.utils.timesince import timesince
from django.views.decorators.http import require_POST

from queuemgr.base.errors import BadInput, SluiceError
from queuemgr.flows import payload_validation
from queuemgr.models import NOT_COUNTED_AS_ATTEMPT, UNBOUNDED, Attempt, Execution
from queuemgr.reporting import explain
from queuemgr.web.admin import execution_actions, execution_page, saved_view_pages
from queuemgr.web.admin.attempts import step_text
from queuemgr.web.admin.dashboard import dashboard_page, fragment
from queuemgr.web.admin.enqueue import enqueue_page
from queuemgr.web.admin.execution_actions import ActionForm, ExecutionAction
from queuemgr.web.admin.execution_filters import FilteredList, read_filters
from queuemgr.web.admin.execution_page import OfferedAction
from queuemgr.web.admin.read_only_admin import BulkReadList, ExtraPage, ReadOnlyAdmin, actor_of, render_page
from queuemgr.web.admin.search import search_page
from queuemgr.web.links import address
from queuemgr.web.page_registry import page

AT_ONCE = 1_000
"""Maximum number of rows that an action changes within its request; for more it is a bulk action."""


@page(Execution)
class ExecutionAdmin(ReadOnlyAdmin):
    is_live = True
    list_display = (
        "key", "flow", "status", "at", "priority", "why", "tries", "error_kind", "age",
    )  # fmt: skip
    titles = {"at": "step and limits", "why": "why it waits", "tries": "attempts", "age": "age"}
    list_before_template = "admin/queuemgr/execution_filters.html"
    list_tools_template = "admin/queuemgr/execution_tools.html"
    ordering = ("-id",)
    sortable_by = ()
    deferred = UNBOUNDED
    has_history = True
    list_select_related = ("route",)
    own_page = "execution"

    class Media:
        css = {"all": ("queuemgr/executions.css",)}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[BulkReadList]:
        return FilteredList

    def read_page(self, rows: Sequence[Any]) -> None:
        tries, reasons = _tries(rows), explain.reasons()
        for row in rows:
            row.why = reasons.of(row)
            row.at = step_text(row, row.route.limit_keys if row.route else "")
            row.tries = tries.get(row.pk, 0)
            row.age = timesince(row.created_at, reasons.now, depth=1)

    def get_actions(self, request: HttpRequest) -> Any:
        if "_popup" in request.GET:
            return {}
        allowed = (a for a in execution_actions.LIST_ACTIONS if a.allowed_to(request.user))
        return {
            a.name: (partial(type(self).act, act=a), a.name, f"{a.label}…" if a.form else a.label)
            for a in allowed
        }

    def act(
        self, request: HttpRequest, queryset: QuerySet[Execution], act: ExecutionAction
    ) -> HttpResponse | None:
        """Act on the selected rows: at once, after a form, or as a bulk action if there are many."""
        if bulk := self._bulk_instead(request, queryset, act):
            return redirect(bulk)
        form = (act.form or ActionForm)(request.POST if "reason" in request.POST else None, label_suffix="")
        if act.form and not form.is_valid():
            return self._show_form(request, queryset, act, form)
        try:
            changed = act.apply(queryset, actor_of(request), form.cleaned_data if act.form else {})
        except SluiceError as error:
            self.message_user(request, f"Stopped early: {error}", messages.ERROR)
        else:
            level = messages.SUCCESS if changed else messages.WARNING
            self.message_user(request, act.message(changed), level)
        return None

    def _bulk_instead(self, request: HttpRequest, queryset: QuerySet[Any], act: ExecutionAction) -> str:
        """The page of a new bulk action, if all matching rows are selected and they are too many."""
        across = request.POST.get("select_across") == "1"
        if not across or not act.bulk or not request.user.has_perm("queuemgr.add_bulkaction"):
            return ""
        many = queryset.order_by()[: AT_ONCE + 1].count() > AT_ONCE
        try:
            return address("bulk_new", **read_filters(request), verb=act.bulk) if many else ""
        except BadInput:
            return ""

    def _show_form(
        self, request: HttpRequest, queryset: QuerySet[Execution], act: ExecutionAction, form: ActionForm
    ) -> HttpResponse:
        chosen = request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)
        across = request.POST.get("select_across") == "1"
        some = list(queryset.select_related(None).only("flow", "key")[: SAMPLE + 1])
        context = {
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
        return render_page(request, "action", **context)

    def pages(self) -> Iterable[ExtraPage]:
        yield ExtraPage("dashboard/", dashboard_page, "dashboard_page")
        yield ExtraPage("dashboard/parts/", fragment, "dashboard_fragment")
        yield from saved_view_pages.pages()
        yield ExtraPage("search/", search_page, "search_everything")
        yield ExtraPage("enqueue/", enqueue_page, "queuemgr_execution_enqueue")
        yield ExtraPage("<int:object_id>/action/", self.action_view, "queuemgr_execution_action")

    def own_context(
        self, request: HttpRequest, row: Execution, typed: OfferedAction | None = None
    ) -> dict[str, Any]:
        return {"title": str(row), **execution_page.context(row, request.user, typed)}

    @method_decorator(require_POST)
    def action_view(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """Apply the action of a button; shows the page again with the errors of its form."""
        execution = self.get_object(request, str(object_id))
        act = execution_actions.ACTIONS_BY_NAME.get(request.POST.get("act", ""))
        if execution is None:
            return self.missing(request, object_id)
        may_view = self.has_view_permission(request, execution)
        if act is None or not may_view or not act.allowed_to(request.user):
            raise PermissionDenied
        form = execution_page.form_of(act, execution, request.POST)
        if not form.is_valid() or not self._apply(request, execution, act, form):
            context = self.own_context(request, execution, OfferedAction(act, form))
            return render_page(request, self.own_page, opts=self.opts, **context)
        return redirect(address("queuemgr_execution_change", execution.pk))

    def _apply(
        self, request: HttpRequest, execution: Execution, act: ExecutionAction, form: ActionForm
    ) -> bool:
        """False, with an error in the form, if the input is invalid."""
        rows = Execution.objects.filter(pk=execution.pk)
        try:
            if "payload" in form.cleaned_data:
                payload = payload_validation.restore_masked(form.cleaned_data["payload"], execution.payload)
                form.cleaned_data["payload"] = payload
            changed = act.apply(rows, actor_of(request), form.cleaned_data)
        except SluiceError as error:
            form.refused(error)
            return False
        if changed:
            messages.success(request, f"{execution} was {act.result}.")
        else:
            now = Execution.objects.get(pk=execution.pk).status
            messages.warning(request, f"Nothing was changed: {execution} is {now} now.")
        return True

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("route", "batch", "lease__worker")


SAMPLE = 10
"""Number of selected rows that the form's page names."""


def _tries(rows: Sequence[Execution]) -> dict[int, int]:
    """Attempts at the current step of each, since it reached the step or was last retried."""
    at_its_step = {"phase": F("execution__phase"), "step": F("execution__step")}
    tried = (
        Attempt.objects.filter(execution__in=[row.pk for row in rows], **at_its_step)
        .filter(leased_at__gte=F("execution__attempts_counted_since"))
        .exclude(outcome__in=NOT_COUNTED_AS_ATTEMPT)
    )
    return dict(tried.order_by().values_list("execution_id").annotate(n=Count("pk")))
