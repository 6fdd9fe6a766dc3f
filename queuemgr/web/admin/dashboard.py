"""The front page: the board, and the part of it that is fetched again every few seconds."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_safe

from queuemgr.reporting import dashboard as board
from queuemgr.reporting.dashboard import Board
from queuemgr.reporting.dashboard.budget_burndown import Line
from queuemgr.reporting.dashboard.trends import NOTHING, Speed, Window
from queuemgr.web.admin.board_links import Links
from queuemgr.web.templatetags.board import clock

REFRESH_SECONDS = 5
MAY_SEE = "queuemgr.view_execution"


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """What the theme's front page is given: the board, for whoever may see executions."""
    if request.user.has_perm(MAY_SEE):
        context.update(_shown(request), refresh_seconds=REFRESH_SECONDS)
    return context


@require_safe
def fragment(request: HttpRequest) -> HttpResponse:
    """The board's parts anew, without the page around them."""
    if not request.user.has_perm(MAY_SEE):
        raise PermissionDenied
    return render(request, "admin/queuemgr/board/fragment.html", _shown(request))


def _shown(request: HttpRequest) -> dict[str, Any]:
    found = board.read()
    shown = _window_of(found, request.GET.get("window", ""))
    return {
        "board": found,
        "links": Links(request.user),
        "shown": shown,
        "here": f"{reverse('admin:index')}?window={shown.key}",
        "table": _speeds(found),
        "charts": {"ended": _ended(shown, found), "burn": _burn(found.budgets.line, found)},
    }


def _window_of(found: Board, key: str) -> Window:
    """The window asked for; the first for a word nobody knows."""
    return next((window for window in found.windows if window.key == key), found.windows[0])


def _speeds(found: Board) -> list[tuple[str, list[Speed]]]:
    """One row for all work, each phase and each priority, over all windows."""
    names = dict.fromkeys(name for window in found.windows for name in window.speeds)
    return [
        (name, [window.speeds.get(name, NOTHING) for window in found.windows]) for name in names
    ]


def _ended(shown: Window, found: Board) -> dict[str, Any]:
    """Series for the bars of the chart."""
    return {
        "labels": [clock(bar.start, found.at) for bar in shown.bars],
        "done": [bar.done for bar in shown.bars],
        "again": [bar.again for bar in shown.bars],
        "failed": [bar.failed for bar in shown.bars],
    }


def _burn(line: Line | None, found: Board) -> dict[str, Any]:
    """Points for the two lines of the chart: seconds since 1970, and requests left."""
    if line is None:
        return {}
    return {
        "past": [[point.at.timestamp(), point.left] for point in line.past],
        "ahead": [[point.at.timestamp(), point.left] for point in line.ahead],
        "most": found.budgets.fleet.budget if found.budgets.fleet else 0,
    }


def _add_address(site: Any) -> None:
    """The theme's site adds what `extra_urls` gives to its own addresses."""
    others = getattr(site, "extra_urls", list)

    def extra_urls() -> list[URLPattern]:
        return [path("board/", site.admin_view(fragment), name="board_fragment"), *others()]

    site.extra_urls = extra_urls


_add_address(admin.site)
