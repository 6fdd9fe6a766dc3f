"""Failed executions grouped by cause, with links to show and retry them, and trends by hour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from queuemgr.base.column_sizes import MAX_FLOW_NAME
from queuemgr.base.config import queue_settings
from queuemgr.base.errors import SluiceError
from queuemgr.base.scheduler_lock import database_now
from queuemgr.operations import failure_retention
from queuemgr.reporting.failure_groups import FailureGroup, groups, trends
from queuemgr.reporting.failure_retention import SETTING, days_text, kept
from queuemgr.web.admin.read_only_admin import actor_of, render_page
from queuemgr.web.links import address

SHOWN = 50


def failures(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perm("queuemgr.view_execution"):
        raise PermissionDenied
    context = {
        "title": "Failures",
        "rows": [_row(group) for group in groups(SHOWN)],
        "shown": SHOWN,
        "trends": [(trend, _bars(trend.hours)) for trend in trends()],
        "now": database_now(),
        **_kept(),
    }
    return render_page(request, "failures", **context)


def _kept() -> dict[str, Any]:
    """How long failures are kept: what the setting says, and the flows that do not follow it."""
    flows = kept()
    return {
        "kept": flows, "own": [each for each in flows if each.stated_by != SETTING], "setting": SETTING,
        "kept_by_setting": days_text(queue_settings().keep_failed_days),
    }  # fmt: skip


class KeepForm(forms.Form):
    flow = forms.CharField(max_length=MAX_FLOW_NAME)
    days = forms.FloatField(min_value=0, required=False)


@require_POST
def keep_failures(request: HttpRequest) -> HttpResponse:
    """State for how many days the failures of a flow are kept; without a number, as code and settings say."""
    if not request.user.has_perm("queuemgr.change_flowretention"):
        raise PermissionDenied
    form = KeepForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Not saved: give a number of days from 0, or nothing.")
        return redirect(address("failures"))
    flow, days = form.cleaned_data["flow"], form.cleaned_data["days"]
    try:
        failure_retention.keep(flow, days, actor_of(request))
    except SluiceError as error:
        messages.error(request, str(error))
    else:
        said = "as code and settings say" if days is None else days_text(days)
        messages.success(request, f"Failures of {flow} are kept {said}.")
    return redirect(address("failures"))


def _row(group: FailureGroup) -> dict[str, Any]:
    """A group, with the addresses of its executions and of their retry."""
    filters = {"state": "failed", "error_kind": group.kind, "error_fingerprint": group.fingerprint}
    filters = {name: value for name, value in filters.items() if value}
    return {
        "group": group,
        "list_url": address("queuemgr_execution_changelist", **filters),
        "retry_url": address("bulk_new", **filters, verb="retry"),
        "sample_url": address("queuemgr_execution_change", group.sample_id),
    }


def _bars(hours: Sequence[int]) -> list[tuple[int, int, int]]:
    """x, y and height of each hour's bar in a drawing 20 units high."""
    highest = max(hours) or 1
    heights = [max(1 if n else 0, round(20 * n / highest)) for n in hours]
    return [(5 * hour, 20 - height, height) for hour, height in enumerate(heights)]
