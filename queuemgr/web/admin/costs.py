"""Costs: what was used of each meter, as a table with bars, and as a file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils.http import urlencode

from queuemgr.base.config import queue_settings
from queuemgr.base.csv_text import csv_line
from queuemgr.base.errors import BadInput
from queuemgr.base.meters import REQUESTS, USD, meter_or_plain, meters
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.written_times import moment
from queuemgr.reporting.costs import DIMENSIONS, MOST_ROWS, Costs, Used, costs, may_see
from queuemgr.scheduling.claims import TENANT
from queuemgr.web.admin.read_only_admin import render_page
from queuemgr.web.links import address

ROWS = 100
BAR = 120
"""Width of the longest bar."""

ASKED = ("by", "since", "until", "meter", "zone")
LONGEST = 64
"""Characters of what is asked for."""


def view(request: HttpRequest) -> HttpResponse:
    asked = _asked(request)
    now = database_now()
    try:
        found, error = _report(asked, ROWS), ""
    except BadInput as refused:
        found, error = costs(asked["by"], now, zone=queue_settings().budget_zone, rows=ROWS), str(refused)
    kept = {name: value for name, value in asked.items() if value}
    return render_page(
        request, "costs", title="Costs", asked=asked, error=error, found=found,
        by=[by for by in DIMENSIONS if _may_see(request, by)], meters=sorted(meters()),
        titles=[_title(meter) for meter in found.meters or (REQUESTS,)],
        ordered_title=_title(found.ordered_by), chart=_chart(found), rows=list(_rows(request, found)),
        total=_amounts(found.total, found), notes=list(found.notes()),
        csv=f"{address('costs_csv')}?{urlencode(kept)}",
    )  # fmt: skip


def download(request: HttpRequest) -> HttpResponse:
    """The report as CSV, with as many rows as there may be."""
    asked = _asked(request)
    try:
        lines = map(csv_line, _report(asked, MOST_ROWS).as_cells())
    except BadInput as error:
        return HttpResponseBadRequest(str(error), "text/plain; charset=utf-8")
    file = HttpResponse("".join(lines), content_type="text/csv; charset=utf-8")
    file["Content-Disposition"] = f'attachment; filename="costs-by-{asked["by"]}.csv"'
    return file


def _asked(request: HttpRequest) -> dict[str, str]:
    """What the address asks for. Raises `PermissionDenied`."""
    asked = {name: request.GET.get(name, "").replace("\0", "").strip()[:LONGEST] for name in ASKED}
    asked["by"] = asked["by"] if asked["by"] in DIMENSIONS else "tenant"
    if not _may_see(request, asked["by"]):
        raise PermissionDenied
    return asked


def _may_see(request: HttpRequest, by: str) -> bool:
    return all(request.user.has_perm(f"queuemgr.{name}") for name in ("view_allowanceusage", *may_see(by)))


def _report(asked: dict[str, str], rows: int) -> Costs:
    now = database_now()
    return costs(
        asked["by"], now, meter=asked["meter"], rows=rows,
        since=moment(asked["since"], now) if asked["since"] else None,
        until=moment(asked["until"], now) if asked["until"] else None,
        zone=asked["zone"] or queue_settings().budget_zone,
    )  # fmt: skip


def _rows(request: HttpRequest, found: Costs) -> Iterator[dict[str, Any]]:
    """Each with the length of its bar, of the meter that comes first, and the limit whose allowances it is
    charged to, if it is one's and the user may see limits."""
    sees_limits = request.user.has_perm("queuemgr.view_limit")
    most = max((row.amounts[found.ordered_by] for row in found.rows), default=0) or 1
    for row in found.rows:
        amount = row.amounts[found.ordered_by]
        length = max(1, round(BAR * amount / most)) if amount else 0
        limit = _limit_of(row, found.by) if sees_limits else ""
        page = address("queuemgr_limit_named", name=limit) if limit else _page_of(row, found.by)
        yield {"row": row, "amounts": _amounts(row, found), "bar": length, "page": page, "limit": limit}


COLUMN = 10
"""Width of a column of the chart, with the space beside it; its height is 100."""


def _chart(found: Costs) -> dict[str, Any]:
    """Columns of the meter that comes first, one a day, also for days on which nothing was used."""
    if found.by != "day" or len(found.rows) < 2:
        return {}
    amounts = {date.fromisoformat(row.name): row.amounts[found.ordered_by] for row in found.rows}
    first, last, most = min(amounts), max(amounts), max(amounts.values()) or 1
    text = meter_or_plain(found.ordered_by).text
    days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    columns = [
        {
            "x": n * COLUMN + 1,
            "y": 100 - height,
            "height": height,
            "title": f"{day}: {text(amounts.get(day, 0))}",
        }
        for n, day in enumerate(days)
        for height in (round(100 * amounts.get(day, 0) / most),)
    ]
    return {
        "columns": columns,
        "width": len(days) * COLUMN,
        "most": text(most),
        "first": f"{first}",
        "last": f"{last}",
    }


def _title(meter: str) -> str:
    """As the header of a column: `Tokens`, `USD`."""
    return "USD" if meter == USD else meter.replace("_", " ").capitalize()


def _amounts(row: Used, found: Costs) -> list[str]:
    return [meter_or_plain(meter).text(row.amounts[meter]) for meter in found.meters or (REQUESTS,)]


_LIMITS = {"limit": "{}", "model": "{}", "tenant": f"{TENANT}{{}}"}
"""The limit that a row is about, by what the report is by."""


def _limit_of(row: Used, by: str) -> str:
    return _LIMITS.get(by, "").format(row.name) if row.name else ""


def _page_of(row: Used, by: str) -> str:
    """Where what it is by is shown."""
    return address(f"queuemgr_{by}_change", row.row) if row.row is not None else ""
