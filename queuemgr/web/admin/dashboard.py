"""The front page: the dashboard, and its parts, which the browser fetches again every few seconds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from queuemgr.base.time_text import in_zone
from queuemgr.reporting.burn_down import Line
from queuemgr.reporting.dashboard import Dashboard, read
from queuemgr.reporting.dashboard.trends import NOTHING, Speed, Window
from queuemgr.web.admin.burn_down_chart import last_in_words
from queuemgr.web.admin.read_only_admin import render_page

REFRESH_SECONDS = 5
PERMISSION = "queuemgr.view_execution"


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """unfold's callback for the context of the front page."""
    if request.user.has_perm(PERMISSION):
        context.update(_context(request), refresh_seconds=REFRESH_SECONDS)
    return context


@require_safe
def dashboard_page(request: HttpRequest) -> HttpResponse:
    """The dashboard on a page of its own, for a site whose front page is not ours."""
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    return render_page(request, "dashboard", **dashboard(request, {"title": "Dashboard"}))


@require_safe
def fragment(request: HttpRequest) -> HttpResponse:
    """The parts of the dashboard that are refreshed, without the page around them."""
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    return render(request, "admin/queuemgr/dashboard/fragment.html", _context(request))


def _context(request: HttpRequest) -> dict[str, Any]:
    board = read()
    line = board.budgets.line
    asked = request.GET.get("window")
    window = next((window for window in board.windows if window.key == asked), board.windows[0])
    return {
        "dashboard": board,
        "window": window,
        "here": f"{request.path}?{urlencode({'window': window.key})}",
        "speeds": _speeds(board),
        "charts": {"ended": _ended(window, board), "burn": _burn(line, board)},
        "burn_ends": line and last_in_words(line, "{:,}".format),
    }


def _speeds(board: Dashboard) -> list[tuple[str, list[Speed]]]:
    """A row for all work, each phase and each priority, with a column per window."""
    names = dict.fromkeys(name for window in board.windows for name in window.speeds)
    return [(name, [window.speeds.get(name, NOTHING) for window in board.windows]) for name in names]


def _ended(window: Window, board: Dashboard) -> dict[str, Any]:
    """The series of the bar chart."""
    series = {name: [getattr(bar, name) for bar in window.bars] for name in ("done", "again", "failed")}
    return {"labels": [_axis(bar.start, board.at) for bar in window.bars], **series}


def _burn(line: Line | None, board: Dashboard) -> dict[str, Any]:
    """The points of the burn-down chart: Unix seconds, and requests left."""
    if line is None:
        return {}
    return {
        "past": [[point.at.timestamp(), point.left] for point in line.past],
        "ahead": [[point.at.timestamp(), point.left] for point in line.ahead],
        "most": board.budgets.fleet.budget if board.budgets.fleet else 0,
    }


def _axis(at: datetime, now: datetime) -> str:
    """A moment at the axis of a chart, where there is little room."""
    shown = in_zone(at)
    return f"{shown:%H:%M}" if shown.date() == in_zone(now).date() else f"{shown:%-d %b %H:%M}"
