"""The collection of papers: rows of a table, counts by status, and failures by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F, QuerySet

from pipeline.models import FLOW, Document
from pipeline.steps.report.plain_text import one_line
from queuemgr import operator_status
from queuemgr.extend.models import FINAL, Execution, State, meaning_of

NOT_ENQUEUED = "not enqueued"
"""The status of a document without an execution."""

SORTS = {
    "added": "pk", "title": "title", "year": "year", "pages": "pages", "references": "references",
    "key": "key", "cost": "micro_usd",
}  # fmt: skip
"""Names of sort orders, and their columns."""

LISTED = (
    "pk", "key", "title", "year", "pages", "references", "method", "problem", "open_access",
    "report_html", "requests", "prompt_tokens", "completion_tokens", "micro_usd", "priced_requests",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One paper in the table. `note`: what failed or is missing; `report`: a storage name, or ""."""

    pk: int
    key: str
    title: str
    status: str
    year: int | None
    pages: int | None
    references: int | None
    open_access: str
    method: str
    cost: str
    note: str
    report: str
    finished: datetime | None

    @property
    def state(self) -> str:
        """The CSS class that colours its status."""
        if self.status == State.DONE:
            return "partial" if self.note else "done"
        return self.status if self.status in FINAL else "unfinished"


@dataclass(frozen=True)
class Failure:
    """The number of papers that failed with one kind of error, and its meaning."""

    kind: str
    count: int
    meaning: str


def rows_of(documents: QuerySet[Document]) -> list[Row]:
    """These documents with the state of their executions, in their order, by two queries."""
    found = list(documents.only(*LISTED))
    keys = [document.key for document in found]
    executions = {
        execution.key: execution
        for execution in Execution.objects.filter(flow=FLOW, key__in=keys).defer("payload", "context")
    }
    return [_row(document, executions.get(document.key)) for document in found]


def _row(document: Document, execution: Execution | None) -> Row:
    error = execution.error_message if execution and execution.state == State.FAILED else ""
    return Row(
        pk=document.pk,
        key=one_line(document.key),
        title=one_line(document.title) or one_line(document.key),
        status=execution.status if execution else NOT_ENQUEUED,
        year=document.year,
        pages=document.pages,
        references=document.references,
        open_access=one_line(document.open_access),
        method=one_line(document.method.removeprefix("model:")),
        cost=str(document.cost),
        note=one_line(error or document.problem),
        report=document.report_html.name or "",
        finished=execution.finished_at if execution else None,
    )


def counts() -> Counter[str]:
    """The number of papers by status, without those that have no execution."""
    by_status: Counter[str] = Counter()
    # Of all flows: the index begins with the state, so all of it is read anyway.
    states = Execution.objects.order_by().values_list("flow", "state", "phase")
    for flow, state, phase, count in states.annotate(n=Count("*")):
        if flow == FLOW:
            by_status[operator_status(state, phase)] += count
    return by_status


def failures() -> list[Failure]:
    """Failed papers by error kind, the most frequent first."""
    failed = Execution.objects.failed().filter(flow=FLOW).order_by().values_list("error_kind")
    found = failed.annotate(n=Count("*")).order_by("-n", "error_kind")
    return [Failure(kind, n, meaning_of(kind)) for kind, n in found]


def in_order(documents: QuerySet[Document], sort: str) -> QuerySet[Document]:
    """Sorted by a name of `SORTS`, descending with a dash before it; missing values come last."""
    name = SORTS[sort.removeprefix("-")]
    if name == "pk":  # never missing, so that an index gives the order
        return documents.order_by("-pk" if sort.startswith("-") else "pk")
    column = F(name)
    order = column.desc(nulls_last=True) if sort.startswith("-") else column.asc(nulls_last=True)
    return documents.order_by(order, "-pk")


@dataclass(frozen=True)
class Heading:
    """A column of the table: `sort`: its name in `SORTS`; `link`: the URL that sorts by it."""

    label: str
    sort: str = ""
    number: bool = False
    link: str = ""
    direction: str = ""


HEADINGS: Sequence[Heading] = (
    Heading("Paper", "title"),
    Heading("Status"),
    Heading("Year", "year", number=True),
    Heading("Pages", "pages", number=True),
    Heading("References", "references", number=True),
    Heading("Open access"),
    Heading("Analysis"),
    Heading("Cost", "cost", number=True),
    Heading("Note"),
    Heading("Finished"),
)
