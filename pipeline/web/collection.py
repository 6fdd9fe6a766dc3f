"""The papers as a collection: rows of a table, counts by status, failures by kind and what they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F, QuerySet

from pipeline.models import FLOW, Document
from pipeline.steps.report.report import one_line
from queuemgr import operator_status
from queuemgr.extend.models import FINAL, Execution, State, meaning_of

NOT_BEGUN = "not begun"
"""The status of a document that is only known so far."""

SORTS = {
    "added": "pk", "title": "title", "year": "year", "pages": "pages", "references": "references",
    "key": "key",
}  # fmt: skip
"""What a collection may be sorted by, and the column that stands for it."""

LISTED = (
    "pk", "key", "title", "year", "pages", "references", "method", "problem", "open_access",
    "report_html",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One paper in the table. `note` says what failed or is missing; `report` is a storage name or ""."""

    pk: int
    key: str
    title: str
    status: str
    year: int | None
    pages: int | None
    references: int | None
    open_access: str
    method: str
    note: str
    report: str
    finished: datetime | None

    @property
    def state(self) -> str:
        """One word the table colours it by."""
        if self.status == State.DONE:
            return "partial" if self.note else "done"
        return self.status if self.status in FINAL else "going"


@dataclass(frozen=True)
class Failure:
    """How many failed with one kind of error, and what that kind means."""

    kind: str
    count: int
    meaning: str


def rows_of(documents: QuerySet[Document]) -> list[Row]:
    """These documents with the standing of their executions, in their order: two queries in all."""
    found = list(documents.only(*LISTED))
    keys = [document.key for document in found]
    executions = {
        execution.key: execution
        for execution in Execution.objects.filter(flow=FLOW, key__in=keys).defer(
            "payload", "context"
        )
    }
    return [_row(document, executions.get(document.key)) for document in found]


def _row(document: Document, execution: Execution | None) -> Row:
    error = execution.error_message if execution and execution.state == State.FAILED else ""
    return Row(
        pk=document.pk,
        key=one_line(document.key),
        title=one_line(document.title) or one_line(document.key),
        status=execution.status if execution else NOT_BEGUN,
        year=document.year,
        pages=document.pages,
        references=document.references,
        open_access=one_line(document.open_access),
        method=one_line(document.method.removeprefix("model:")),
        note=one_line(error or document.problem),
        report=document.report_html.name or "",
        finished=execution.finished_at if execution else None,
    )


def counts() -> Counter[str]:
    """Papers by the operator's word for where they stand; those only known so far are not counted."""
    by_word: Counter[str] = Counter()
    # All flows: the index that counts begins with the state, and is read to its end in any case.
    places = Execution.objects.order_by().values_list("flow", "state", "phase")
    for flow, state, phase, count in places.annotate(n=Count("*")):
        if flow == FLOW:
            by_word[operator_status(state, phase)] += count
    return by_word


def failures() -> list[Failure]:
    """Failed papers by kind of error, the most frequent first."""
    failed = Execution.objects.failed().filter(flow=FLOW).order_by().values_list("error_kind")
    found = failed.annotate(n=Count("*")).order_by("-n", "error_kind")
    return [Failure(kind, n, meaning_of(kind)) for kind, n in found]


def in_order(documents: QuerySet[Document], sort: str) -> QuerySet[Document]:
    """Sorted by a name of `SORTS`, downwards with a dash before it; what has no value comes last."""
    name = SORTS[sort.removeprefix("-")]
    if name == "pk":  # never without a value; said plainly, the order of an index
        return documents.order_by("-pk" if sort.startswith("-") else "pk")
    column = F(name)
    order = column.desc(nulls_last=True) if sort.startswith("-") else column.asc(nulls_last=True)
    return documents.order_by(order, "-pk")


@dataclass(frozen=True)
class Heading:
    """A column of the table: `sort` is its name in `SORTS`, `link` where a click on it leads."""

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
    Heading("Note"),
    Heading("Finished"),
)
