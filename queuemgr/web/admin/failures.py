"""Failed executions grouped by cause, with links to show and retry them, and trends by hour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from queuemgr.base.scheduler_lock import database_now
from queuemgr.reporting.failure_groups import FailureGroup, groups, trends
from queuemgr.web.admin.read_only_admin import render_page
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
    }
    return render_page(request, "failures", **context)


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
