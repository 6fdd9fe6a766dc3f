"""The collection at `/papers/`: sorted, filtered and paged by the server, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from django.contrib.auth.decorators import login_required, permission_required
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse

from pipeline.bibliography import FORMATS
from pipeline.models import FLOW, Document
from pipeline.web.collection import (
    HEADINGS,
    NOT_ENQUEUED,
    SORTS,
    Failure,
    Heading,
    counts,
    failures,
    in_order,
    rows_of,
)
from queuemgr.extend.admin import BoundedPaginator
from queuemgr.extend.models import Execution, State, statuses

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
PAGE_SIZE = 100
MAX_SORTED = 100_000
"""The most papers that are sorted; more are shown newest first, which an index gives."""

NEWEST_FIRST = "-added"


@login_required(login_url="admin:login")
@permission_required("pipeline.view_document", raise_exception=True)
def collection(request: HttpRequest) -> HttpResponse:
    """A page of the collection. Invalid query parameters are ignored."""
    query, by_status, by_kind = CollectionQuery(request.GET), counts(), failures()
    is_large = query.matching(by_status, by_kind) > MAX_SORTED
    documents = query.documents(is_large=is_large)
    bound = MAX_SORTED + 1
    counted = bound if is_large and not query.q else documents.order_by()[:bound].count()
    sortable = counted <= MAX_SORTED
    sort = query.sort if sortable else NEWEST_FIRST
    pages = BoundedPaginator(in_order(documents, sort), PAGE_SIZE, counted=counted)
    page: Any = pages.get_page(query.page)
    shown: dict[str, Any] = {
        "rows": rows_of(page.object_list),
        "page": page,
        "earlier": query.address(page=page.number - 1) if page.has_previous() else "",
        "later": query.address(page=page.number + 1) if page.has_next() else "",
        "headings": [query.heading(heading, sort, sortable) for heading in HEADINGS],
        "counts": [(status, n, query.only(status=status)) for status, n in by_status.most_common()],
        "failures": [(failure, query.only(kind=failure.kind)) for failure in by_kind],
        "exports": [(made.label, query.export(name)) for name, made in FORMATS.items()],
        "query": query,
        "sortable": sortable,
        "sorted_up_to": MAX_SORTED,
    }
    response = render(request, "papers/collection.html", shown)
    response["Content-Security-Policy"] = POLICY
    return response


class CollectionQuery:
    """Query parameters: `status`, `kind` (of error), `q` (prefix of key or title), `sort`, `page`."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.status = given.get("status", "")
        self.kind = given.get("kind", "")
        self.q = given.get("q", "").replace("\x00", "").strip()[:200]
        wanted = given.get("sort", NEWEST_FIRST)
        self.sort = wanted if wanted.removeprefix("-") in SORTS else NEWEST_FIRST
        self.page = given.get("page", "1")

    def matching(self, by_status: Mapping[str, int], by_kind: Iterable[Failure]) -> int:
        """The number of papers with the requested status or error kind; 0 if none is requested."""
        if self.kind:
            return next((failure.count for failure in by_kind if failure.kind == self.kind), 0)
        return by_status.get(self.status, 0)

    def documents(self, *, is_large: bool) -> QuerySet[Document]:
        """The matching documents. If many match, each document is checked in order; a few are fetched by
        key. SQLite does not choose between the two itself, and the wrong one takes seconds longer."""
        rows = Document.objects.all()
        if self.q:
            rows = rows.filter(Q(key__startswith=self.q) | Q(title__istartswith=self.q))
        if self.status == NOT_ENQUEUED:
            return rows.not_enqueued()
        chosen = self._executions()
        if chosen is None:
            return rows
        if is_large:
            return rows.filter(Exists(chosen.filter(key=OuterRef("key"))))
        return rows.filter(key__in=chosen.values("key"))

    def _executions(self) -> QuerySet[Execution] | None:
        """The executions to match; None for all documents."""
        rows = Execution.objects.filter(flow=FLOW)
        if self.kind:
            return rows.filter(state=State.FAILED, error_kind=self.kind)
        if self.status in statuses():
            return rows.filter(statuses()[self.status])
        return None

    def address(self, **changed: Any) -> str:
        """The URL of the same page with some parameters changed; without empty ones."""
        parameters = {"status": self.status, "kind": self.kind, "q": self.q, "sort": self.sort}
        query = QueryDict(mutable=True)
        query.update({name: str(v) for name, v in {**parameters, **changed}.items() if v})
        return f"?{query.urlencode()}"

    def export(self, form: str) -> str:
        """The URL of the file of these papers."""
        chosen = self.address(sort="", format=form)
        return f"{reverse('export_papers')}{chosen}"

    def only(self, **chosen: str) -> str:
        return self.address(**{"status": "", "kind": "", **chosen})

    def heading(self, heading: Heading, sort: str, sortable: bool) -> Heading:
        """The heading with the URL that sorts by it, in reverse if it is sorted by it already."""
        if not heading.sort or not sortable:
            return heading
        now = {heading.sort: "ascending", f"-{heading.sort}": "descending"}.get(sort, "")
        wanted = f"-{heading.sort}" if now == "ascending" else heading.sort
        return replace(heading, link=self.address(sort=wanted), direction=now)
