"""What failed, by cause: groups to look at and to retry, and each kind's last day by the hour."""

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
    """A group, and where to see and to retry its executions."""

    group: FailureGroup
    shown_at: str
    retried_at: str
    sample_at: str


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
        "may_retry": request.user.has_perms(
            ("queuemgr.add_bulkaction", "queuemgr.retry_execution")
        ),
    }
    return TemplateResponse(request, "admin/queuemgr/failures.html", context)


def _row(group: FailureGroup) -> Row:
    alike = {"error_kind": group.kind, "error_fingerprint": group.fingerprint}
    filters = {"state": "failed", **{name: value for name, value in alike.items() if value}}
    return Row(
        group=group,
        shown_at=_address("admin:queuemgr_execution_changelist", filters),
        retried_at=_address("admin:bulk_new", {**filters, "verb": "retry"}),
        sample_at=reverse("admin:queuemgr_execution_change", args=[group.sample_id]),
    )


def _address(page: str, given: dict[str, Any]) -> str:
    return f"{reverse(page)}?{urlencode(given)}"


def _bars(hours: Sequence[int]) -> list[tuple[int, int, int]]:
    """For a drawing 20 high: of each hour its place, where its bar begins, and how high it is."""
    most = max(hours) or 1
    heights = [max(1 if n else 0, round(20 * n / most)) for n in hours]
    return [(5 * at, 20 - height, height) for at, height in enumerate(heights)]
