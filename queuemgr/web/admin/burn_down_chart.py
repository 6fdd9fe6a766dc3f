"""The burn-down of an allowance, or what was used of it lately, as an SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from queuemgr.base.meters import meter_or_plain
from queuemgr.base.time_text import duration_text, moment_text
from queuemgr.reporting.allowances import AllowanceStatus
from queuemgr.reporting.burn_down import Line, Point, Windows
from queuemgr.reporting.estimate_ranges import RANGES, about

WIDTH, HEIGHT = 200, 40


@dataclass(frozen=True)
class Chart:
    """Corners of the lines in a picture of `WIDTH` by `HEIGHT`, and the same in words."""

    past: str
    ahead: str
    label: str
    rows: Sequence[tuple[str, str]]
    """When, and how much is left; the last is a forecast, with its range."""


def chart_of(status: AllowanceStatus, line: Line | None) -> Chart | None:
    if line is None:
        return None
    since, until = line.past[0].at, line.ahead[-1].at
    seconds = max(1.0, (until - since).total_seconds())

    def corners(points: Sequence[Point]) -> str:
        each = ((p, (p.at - since).total_seconds() / seconds) for p in points)
        return " ".join(f"{WIDTH * x:.1f},{HEIGHT * (1 - p.left / (status.most or 1)):.1f}" for p, x in each)

    text, now = meter_or_plain(status.allowance.meter).text, line.ahead[0].at
    ahead = last_in_words(line, text)
    left = f"{text(line.ahead[0].left)} of {text(status.most)} {status.allowance.meter} left"
    return Chart(
        past=corners(line.past),
        ahead=corners(line.ahead),
        label=f"{left}, {' '.join(reversed(ahead))}",
        rows=[(moment_text(p.at, now), text(p.left)) for p in line.past] + [ahead],
    )


def last_in_words(line: Line, text: Callable[[int], str]) -> tuple[str, str]:
    """When, and how much is then left: a range of the moment if that is nothing, else of the amount."""
    here, end = line.ahead[0], line.ahead[-1]
    if not here.left:
        return moment_text(end.at, here.at), text(0)  # it is used up: its reset is known
    if not end.left:
        return about(end.at, "budget", here.at), text(0)
    least, most = RANGES["budget"].amounts(here.left, end.left)
    ranged = f"{text(end.left)} (8 of 10: {text(least)} to {text(most)})"
    return moment_text(end.at, here.at), ranged if least != most else text(end.left)


class Column(NamedTuple):
    """As attributes of a rectangle, and how much that is."""

    x: str
    y: str
    width: str
    height: str
    title: str


@dataclass(frozen=True)
class Columns:
    """A column for each window, the height of what refills in one, and the same in words."""

    columns: Sequence[Column]
    allowed: str
    label: str
    rows: Sequence[tuple[datetime, str]]
    """From when, and how much was used."""


def columns_of(status: AllowanceStatus, windows: Windows | None) -> Columns | None:
    if windows is None:
        return None
    meter = status.allowance.meter
    text, amounts = meter_or_plain(meter).text, [used.amount for used in windows.used]
    most, wide = max(windows.allowed, *amounts, 1), WIDTH / len(amounts)
    places = ((wide * n, HEIGHT * amount / most, text(amount)) for n, amount in enumerate(amounts))
    length = duration_text(windows.length.total_seconds())
    lately = f"{text(amounts[-1])} of {text(windows.allowed)} {meter} used in the last {length}"
    return Columns(
        columns=[
            Column(f"{x:.1f}", f"{HEIGHT - height:.1f}", f"{0.8 * wide:.1f}", f"{height:.1f}", title)
            for x, height, title in places
        ],
        allowed=f"{HEIGHT * (1 - windows.allowed / most):.1f}",
        label=f"{lately}, {text(max(amounts))} in the fullest of the last {len(amounts)} such times",
        rows=[(used.at, text(used.amount)) for used in windows.used],
    )
