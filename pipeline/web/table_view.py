"""A table over the papers at `/papers/table`, and the same as CSV and XLSX. Without scripts."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required, permission_required
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from pipeline.steps.report.plain_text import one_line
from pipeline.web.collection import Heading
from pipeline.web.collection_view import POLICY
from pipeline.web.paper_columns import Column
from pipeline.web.table_files import as_csv, as_xlsx
from pipeline.web.table_query import MAX_SORTED, TableQuery, schema_in
from queuemgr.extend.admin import BoundedPaginator
from queuemgr.extend.api import allowed
from queuemgr.extend.models import statuses

PAGE_SIZE = 50

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


@login_required(login_url="admin:login")
@permission_required("pipeline.view_document", raise_exception=True)
def table(request: HttpRequest) -> HttpResponse:
    """A page of the table."""
    query = TableQuery(request.GET)
    rows, sortable = query.rows(), not query.is_large
    if sortable:
        rows = query.searched(rows)
    counted = rows.order_by()[: MAX_SORTED + 1].count()
    ordered = query.in_order(rows) if sortable else rows.order_by("-pk")
    pages = BoundedPaginator(query.loaded(ordered), PAGE_SIZE, counted=counted)
    page: Any = pages.get_page(query.page)
    columns = query.columns
    shown = {
        "query": query,
        "headings": [_heading(query, column, sortable) for column in columns],
        "rows": [(each, _cells(each, columns)) for each in page.object_list],
        "groups": _groups(query),
        "schemas": [(each.pk, one_line(_name(each.text)), each.pk == query.schema) for each in query.schemas],
        "statuses": list(statuses()),
        "searchable": [each for each in query.available.values() if each.text is not None],
        "count": counted,
        "more": counted > MAX_SORTED,
        "sortable": sortable,
        "sorted_up_to": MAX_SORTED,
        "earlier": query.address(page=page.number - 1) if page.has_previous() else "",
        "later": query.address(page=page.number + 1) if page.has_next() else "",
        "files": [(form.upper(), reverse("table_file", args=[form]) + query.address()) for form in FORMS],
    }
    response = render(request, "papers/table.html", shown)
    response["Content-Security-Policy"] = POLICY
    return response


def _name(text: str) -> str:
    """What a schema is called, or its fields."""
    schema = schema_in(text)
    return str(schema.get("title") or ", ".join(schema["properties"]))[:80]


def _cells(document: Any, columns: list[Column]) -> list[dict[str, Any]]:
    return [
        {"value": column.value(document), "label": column.label, "number": column.number,
         "is_title": column.name in ("title", "key")}
        for column in columns
    ]  # fmt: skip


def _groups(query: TableQuery) -> list[tuple[str, list[tuple[Column, bool]]]]:
    """All columns by their groups, and whether each is shown."""
    groups: dict[str, list[tuple[Column, bool]]] = {}
    for name, column in query.available.items():
        groups.setdefault(column.group, []).append((column, name in query.names))
    return list(groups.items())


def _heading(query: TableQuery, column: Column, sortable: bool) -> Heading:
    """With the address that sorts by it, in reverse if it is sorted by it already."""
    if column.sort is None or not sortable:
        return Heading(column.label, number=column.number)
    now = {column.name: "ascending", f"-{column.name}": "descending"}.get(query.sort, "")
    wanted = f"-{column.name}" if now == "ascending" else column.name
    return Heading(column.label, column.name, column.number, query.address(sort=wanted), now)


FORMS = ("csv", "xlsx")


@require_safe
@allowed("read", "pipeline.view_document")
def table_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """All papers of the table, as CSV sent while it is written, or as a workbook."""
    if form not in FORMS:
        raise Http404(f"a table is written as {' or '.join(FORMS)}")
    query = TableQuery(request.GET)
    if form == "xlsx" and query.is_large:
        detail = f"more than {MAX_SORTED:,} papers: choose fewer, or CSV"
        return JsonResponse({"status": 422, "detail": detail}, status=422)
    labels = [column.label for column in query.columns]
    cells = ([column.value(each) for column in query.columns] for each in query.papers_in_order())
    response: HttpResponseBase
    if form == "csv":
        response = StreamingHttpResponse(as_csv(labels, cells), content_type="text/csv; charset=utf-8")
    else:
        response = FileResponse(as_xlsx(labels, cells), content_type=XLSX)
    response["Content-Disposition"] = f'attachment; filename="papers.{form}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
