"""Failed executions grouped by cause, with links to show and retry them, and trends by hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import urlencode

from queuemgr.base.scheduler_lock import database_now
from queuemgr.reporting.failure_groups import FailureGroup, groups, trends

SHOWN = 50


@dataclass(frozen=True)
class Row:
    """A group, with the addresses of its executions and of their retry."""

    group: FailureGroup
    list_url: str
    retry_url: str
    sample_url: str


def failures(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perm("queuemgr.view_execution"):
        raise PermissionDenied
    context = {
        **admin.site.each_context(request),
        "title": "Failures",
        "rows": [_row(group) for group in groups(SHOWN)],
        "shown": SHOWN,
        "trends": [(trend, _bars(trend.hours)) for trend in trends()],
        "now": database_now(),
        "may_retry": request.user.has_perms(("queuemgr.add_bulkaction", "queuemgr.retry_execution")),
    }
    return TemplateResponse(request, "admin/queuemgr/failures.html", context)


def _row(group: FailureGroup) -> Row:
    group_filters = {"error_kind": group.kind, "error_fingerprint": group.fingerprint}
    filters = {"state": "failed", **{name: value for name, value in group_filters.items() if value}}
    return Row(
        group=group,
        list_url=_address("admin:queuemgr_execution_changelist", filters),
        retry_url=_address("admin:bulk_new", {**filters, "verb": "retry"}),
        sample_url=reverse("admin:queuemgr_execution_change", args=[group.sample_id]),
    )


def _address(page: str, given: dict[str, Any]) -> str:
    return f"{reverse(page)}?{urlencode(given)}"


def _bars(hours: Sequence[int]) -> list[tuple[int, int, int]]:
    """x, y and height of each hour's bar in a drawing 20 units high."""
    highest = max(hours) or 1
    heights = [max(1 if n else 0, round(20 * n / highest)) for n in hours]
    return [(5 * hour, 20 - height, height) for hour, height in enumerate(heights)]
