"""Run times and failures by step and by limit, beside those of a week before."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from queuemgr.base.histogram import BOUNDS
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.time_text import duration_text
from queuemgr.reporting.step_times import WINDOWS, step_times
from queuemgr.web.admin.read_only_admin import render_page

HEIGHT, WIDE = 24, 6
USUAL = "day"


def step_times_page(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perms(("queuemgr.view_attempt", "queuemgr.view_execution")):
        raise PermissionDenied
    asked = request.GET.get("window", USUAL)
    window = asked if asked in WINDOWS else USUAL
    now = database_now()
    found = step_times(WINDOWS[window], now)
    context = {
        "title": "Steps and flows", "found": found, "now": now, "window": window,
        "windows": list(WINDOWS), "drawn": [(one, *_drawing(one.now.ran)) for one in found.steps],
        "height": HEIGHT, "width": WIDE * (len(BOUNDS) + 1),
    }  # fmt: skip
    return render_page(request, "step_times", **context)


def _drawing(counts: Sequence[int]) -> tuple[list[tuple[int, int, int]], str]:
    """x, y and height of each bucket's bar, and the histogram in words."""
    highest = max(counts) or 1
    heights = [-(-HEIGHT * count // highest) for count in counts]
    bars = [(WIDE * at, HEIGHT - height, height) for at, height in enumerate(heights) if height]
    every = sum(counts)
    parts = [f"{_bucket(at)}: {count / every:.0%}" for at, count in enumerate(counts) if count]
    return bars, ", ".join(parts)


def _bucket(at: int) -> str:
    return f"to {duration_text(BOUNDS[at])}" if at < len(BOUNDS) else f"over {duration_text(BOUNDS[-1])}"
