"""Costs: what was used of each meter, as a table with bars, and as a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils.http import urlencode

from queuemgr.base.config import queue_settings
from queuemgr.base.csv_text import csv_line
from queuemgr.base.errors import BadInput
from queuemgr.base.meters import REQUESTS, meter_or_plain, meters
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import AllowanceUsage
from queuemgr.reporting.costs import DIMENSIONS, MOST_ROWS, Costs, Used, costs, may_see, moment
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
        request, "costs", title="Costs", opts=AllowanceUsage._meta, asked=asked, error=error, found=found,
        by=[by for by in DIMENSIONS if _may_see(request, by)], meters=sorted(meters()),
        rows=list(_rows(found)), total=_amounts(found.total, found), notes=list(found.notes()),
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


def _rows(found: Costs) -> Iterator[dict[str, Any]]:
    """Each with the length of its bar, of the meter that comes first."""
    most = max((row.amounts[found.ordered_by] for row in found.rows), default=0) or 1
    for row in found.rows:
        amount = row.amounts[found.ordered_by]
        length = max(1, round(BAR * amount / most)) if amount else 0
        yield {"row": row, "amounts": _amounts(row, found), "bar": length, "page": _page_of(row, found.by)}


def _amounts(row: Used, found: Costs) -> list[str]:
    return [meter_or_plain(meter).text(row.amounts[meter]) for meter in found.meters or (REQUESTS,)]


def _page_of(row: Used, by: str) -> str:
    """Where what it is by is shown."""
    return address(f"queuemgr_{by}_change", row.row) if row.row is not None else ""
