"""The burn-down of an allowance as an SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from queuemgr.base.meters import meter_or_plain
from queuemgr.base.time_text import moment_text
from queuemgr.reporting.allowances import AllowanceStatus
from queuemgr.reporting.burn_down import Line, Point

WIDTH, HEIGHT = 200, 40


@dataclass(frozen=True)
class Chart:
    """Corners of the lines in a picture of `WIDTH` by `HEIGHT`, and the same in words."""

    past: str
    ahead: str
    label: str
    rows: Sequence[tuple[datetime, str, bool]]
    """When, how much is left, and whether that is a forecast."""


def chart_of(status: AllowanceStatus, line: Line | None) -> Chart | None:
    if line is None:
        return None
    since, until = line.past[0].at, line.ahead[-1].at
    seconds = max(1.0, (until - since).total_seconds())

    def corners(points: Sequence[Point]) -> str:
        each = ((p, (p.at - since).total_seconds() / seconds) for p in points)
        return " ".join(f"{WIDTH * x:.1f},{HEIGHT * (1 - p.left / (status.most or 1)):.1f}" for p, x in each)

    text, end, now = meter_or_plain(status.allowance.meter).text, line.ahead[-1], line.ahead[0].at
    left = f"{text(line.ahead[0].left)} of {text(status.most)} {status.allowance.meter} left"
    return Chart(
        past=corners(line.past),
        ahead=corners(line.ahead),
        label=f"{left}, {text(end.left)} {moment_text(end.at, now)}",
        rows=[(p.at, text(p.left), False) for p in line.past] + [(end.at, text(end.left), True)],
    )
