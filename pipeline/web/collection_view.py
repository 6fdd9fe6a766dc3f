"""The collection live, at `/papers/`: sorted, filtered and paged by the server, no script needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from django.contrib.auth.decorators import login_required, permission_required
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render

from pipeline.models import FLOW, Document
from pipeline.web.collection import (
    HEADINGS,
    NOT_BEGUN,
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
A_PAGE = 100
SORTED_UP_TO = 100_000
"""Papers that are sorted for one page; more are shown newest first, which an index gives."""

NEWEST_FIRST = "-added"


@login_required(login_url="admin:login")
@permission_required("pipeline.view_document", raise_exception=True)
def collection(request: HttpRequest) -> HttpResponse:
    """A page of the collection. What cannot be understood in the address is left out of account."""
    asked, words, broken = Asked(request.GET), counts(), failures()
    many = asked.matching(words, broken) > SORTED_UP_TO
    documents = asked.documents(many=many)
    enough = SORTED_UP_TO + 1
    counted = enough if many and not asked.q else documents.order_by()[:enough].count()
    sortable = counted <= SORTED_UP_TO
    sort = asked.sort if sortable else NEWEST_FIRST
    pages = BoundedPaginator(in_order(documents, sort), A_PAGE, counted=counted)
    page: Any = pages.get_page(asked.page)
    shown: dict[str, Any] = {
        "rows": rows_of(page.object_list),
        "page": page,
        "earlier": asked.address(page=page.number - 1) if page.has_previous() else "",
        "later": asked.address(page=page.number + 1) if page.has_next() else "",
        "headings": [asked.heading(heading, sort, sortable) for heading in HEADINGS],
        "counts": [(word, n, asked.only(status=word)) for word, n in words.most_common()],
        "failures": [(failure, asked.only(kind=failure.kind)) for failure in broken],
        "asked": asked,
        "sortable": sortable,
        "sorted_up_to": SORTED_UP_TO,
    }
    response = render(request, "papers/collection.html", shown)
    response["Content-Security-Policy"] = POLICY
    return response


class Asked:
    """What an address asks for: `status`, `kind` (of error), `q` (beginning of key or title), `sort`."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.status = given.get("status", "")
        self.kind = given.get("kind", "")
        self.q = given.get("q", "").replace("\x00", "").strip()[:200]
        wanted = given.get("sort", NEWEST_FIRST)
        self.sort = wanted if wanted.removeprefix("-") in SORTS else NEWEST_FIRST
        self.page = given.get("page", "1")

    def matching(self, words: Mapping[str, int], broken: Iterable[Failure]) -> int:
        """How many have the status or the kind of error asked for, of what was counted; 0 without one."""
        if self.kind:
            return next((failure.count for failure in broken if failure.kind == self.kind), 0)
        return words.get(self.status, 0)

    def documents(self, *, many: bool) -> QuerySet[Document]:
        """Those asked for. Where many match, each is looked up as it is met; a few are fetched by their
        keys: SQLite keeps to what the statement says, and either is seconds slower where it is wrong."""
        rows = Document.objects.all()
        if self.q:
            rows = rows.filter(Q(key__startswith=self.q) | Q(title__istartswith=self.q))
        if self.status == NOT_BEGUN:
            return rows.not_under_way()
        chosen = self._executions()
        if chosen is None:
            return rows
        if many:
            return rows.filter(Exists(chosen.filter(key=OuterRef("key"))))
        return rows.filter(key__in=chosen.values("key"))

    def _executions(self) -> QuerySet[Execution] | None:
        """Those whose documents are asked for; None when all are."""
        rows = Execution.objects.filter(flow=FLOW)
        if self.kind:
            return rows.filter(state=State.FAILED, error_kind=self.kind)
        if self.status in statuses():
            return rows.filter(statuses()[self.status])
        return None

    def address(self, **changed: Any) -> str:
        """The same page with something changed; "" and None are left out of the address."""
        words = {"status": self.status, "kind": self.kind, "q": self.q, "sort": self.sort}
        told = QueryDict(mutable=True)
        told.update({name: str(v) for name, v in {**words, **changed}.items() if v})
        return f"?{told.urlencode()}"

    def only(self, **chosen: str) -> str:
        return self.address(**{"status": "", "kind": "", **chosen})

    def heading(self, heading: Heading, sort: str, sortable: bool) -> Heading:
        """With the address that sorts by it, the other way when it is sorted by already."""
        if not heading.sort or not sortable:
            return heading
        now = {heading.sort: "ascending", f"-{heading.sort}": "descending"}.get(sort, "")
        wanted = f"-{heading.sort}" if now == "ascending" else heading.sort
        return replace(heading, link=self.address(sort=wanted), direction=now)
