"""The timeline of schedules: one row a schedule, a mark for what its due times became or will be."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Schedule
from queuemgr.reporting import schedule_timeline as timeline
from queuemgr.reporting.schedule_timeline import KINDS, MOST_RUNS, ZOOMS, Cell, Line, Span
from queuemgr.reporting.schedules import state_of
from queuemgr.web.admin.read_only_admin import render_page
from queuemgr.web.links import address

ROWS = 25
"""Schedules on a page."""

LONGEST_SEARCH = 200
LONGEST_MOMENT = 40
FARTHEST = timedelta(days=3660)
MINUTES = "%Y-%m-%dT%H:%M"
SECONDS = "%Y-%m-%dT%H:%M:%S.%f"


class Mark(NamedTuple):
    """A rectangle in the row of a schedule, in units of a cell."""

    x: int
    kind: str
    title: str
    link: str


def view(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perm("queuemgr.view_schedule"):
        raise PermissionDenied
    now = database_now()
    zoom = ZOOMS.get(request.GET.get("zoom", ""), ZOOMS["day"])
    moment = asked(request.GET.get("at", ""), now)
    search = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]
    span = Span.around(moment or now, zoom)
    page = Paginator(_rows(search), ROWS).get_page(request.GET.get("page"))
    rows = [_shown(line, span, now) for line in timeline.lines(list(page), span, now)]
    kept = {"zoom": zoom.name, "q": search, "at": moment.strftime(MINUTES) if moment else ""}
    return render_page(
        request, "schedule_timeline", title="Timeline of schedules", opts=Schedule._meta, rows=rows,
        span=span, labels=list(_labels(span)), now_at=_place(span, now), search=search, page=page,
        zooms=[(name, _query(kept, zoom=name), name == zoom.name) for name in ZOOMS],
        moves=list(_moves(kept, span, moment)), kept=kept, kinds=list(KINDS.items()), most=MOST_RUNS,
        before=_query(kept, page=page.number - 1), after=_query(kept, page=page.number + 1),
    )  # fmt: skip


def asked(text: str, now: datetime) -> datetime | None:
    """The moment that the address names, if it is one that may be shown."""
    try:
        moment = datetime.fromisoformat(text[:LONGEST_MOMENT])
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment if abs(moment - now) < FARTHEST else None


def until(moment: datetime) -> str:
    """The query string that a schedule's page shows the runs before a moment for."""
    return f"?{urlencode({'until': moment.strftime(SECONDS)})}#runs"


def _rows(search: str) -> Any:
    rows = Schedule.objects.in_force().defer("payload", "statements").order_by("name")
    return rows.filter(Q(name__icontains=search) | Q(flow__icontains=search)) if search else rows


def _shown(line: Line, span: Span, now: datetime) -> dict[str, Any]:
    row = line.schedule
    page = address("queuemgr_schedule_change", row.pk)
    marks = [
        Mark(number, cell.kind, _title(cell), f"{page}{until(cell.end)}")
        for number, cell in sorted(line.cells.items())
    ]
    return {
        "schedule": row, "page": page, "state": state_of(row, now), "marks": marks,
        "summary": _summary(line), "unread": span.number(line.counted_from) if line.counted_from else 0,
    }  # fmt: skip


def _title(cell: Cell) -> str:
    """As `11-30 12:00 to 12:30 UTC: 5 done, 1 failed`."""
    parts = [
        f"{_number(cell.counts[kind], cell.more and kind in NOT_ALL_KNOWN)}{said}"
        for kind, said in KINDS.items() if kind in cell.counts
    ]  # fmt: skip
    why = f" ({cell.reason})" if cell.reason else ""
    return f"{cell.start:%m-%d %H:%M} to {cell.end:%H:%M} UTC: {', '.join(parts)}{why}"


def _number(count: int, or_more: bool) -> str:
    """Nothing for what began in an earlier cell and reaches into this one."""
    return f"{count:,}{'+' if or_more else ''} " if count else ""


def _summary(line: Line) -> str:
    """What is in the row, for those who do not see it, and for all beside it."""
    totals = {kind: sum(cell.counts[kind] for cell in line.cells.values()) for kind in KINDS}
    more = any(cell.more for cell in line.cells.values())
    parts = (
        f"{_number(totals[kind], more and kind in NOT_ALL_KNOWN)}{_SHORT.get(kind, kind)}"
        for kind in KINDS if any(kind in cell.counts for cell in line.cells.values())
    )  # fmt: skip
    return ", ".join(parts) or "nothing"


NOT_ALL_KNOWN = ("due", "paused")
_SHORT = {"running": "not ended", "ended": "cancelled", "held": "waiting", "paused": "paused"}


def _place(span: Span, moment: datetime) -> float | None:
    """Where in the span a moment is, in percent of it."""
    if not span.holds(moment):
        return None
    return round(100 * ((moment - span.start) / (span.end - span.start)), 2)


def _labels(span: Span) -> Iterator[tuple[float, str, str]]:
    """Where a label stands in percent, and its text: the date at midnight and first, else the time."""
    step = span.zoom.label_every
    at = timeline.EPOCH - (timeline.EPOCH - span.start) // step * step
    first = True
    while at < span.end:
        place = _place(span, at)
        is_date = first or (at.hour, at.minute) == (0, 0)
        date = f"{at:%a %d}" if step.days else f"{at:%a %m-%d}" if is_date else ""
        yield place or 0.0, date, "" if step.days else f"{at:%H:%M}"
        at, first = at + step, False


def _moves(kept: dict[str, Any], span: Span, moment: datetime | None) -> Iterator[tuple[str, str]]:
    """Links to earlier and later spans, and back to now."""
    middle, half = span.start + span.zoom.each_side, span.zoom.each_side
    yield "Earlier", _query(kept, at=(middle - half).strftime(MINUTES))
    if moment is not None:
        yield "Now", _query(kept, at="")
    yield "Later", _query(kept, at=(middle + half).strftime(MINUTES))


def _query(kept: dict[str, Any], **changed: Any) -> str:
    return "?" + urlencode({name: value for name, value in {**kept, **changed}.items() if value})
