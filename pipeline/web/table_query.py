"""What a table of papers shows: its columns, papers and order, from the parameters of a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from django.db.models import F, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.http import QueryDict

from pipeline.models import Document, ExtractionSchema
from pipeline.web.collection_view import CollectionQuery
from pipeline.web.paper_columns import CHOSEN_FIRST, PLAIN, PREFIX, Column, field_column

MAX_SORTED = 100_000
"""The most papers that are sorted, or searched for words; more are shown newest first."""

MOST_SCHEMAS = 50
ROWS_PER_QUERY = 200


class TableQuery:
    """`column` (repeated), `schema` (a digest), `status` and `q` as in the collection, `year_from`,
    `year_to`, `in` (a column) with `has` (words in it), `sort`. What cannot be understood is left out."""

    def __init__(self, given: QueryDict) -> None:
        self.papers = CollectionQuery(given)
        self.schema = given.get("schema", "")[:64]
        self.year_from, self.year_to = _year(given.get("year_from")), _year(given.get("year_to"))
        self.has = given.get("has", "").replace("\x00", "").strip()[:200]
        wanted = [name for name in given.getlist("column")[:100] if name in self.available]
        self.names = list(dict.fromkeys(wanted)) or [*CHOSEN_FIRST, *self.fields]
        self.within = given.get("in", "") if given.get("in", "") in self.available else ""
        sort = given.get("sort", "")
        column = self.available.get(sort.removeprefix("-"))
        self.sort = sort if column is not None and column.sort is not None else ""
        self.page = given.get("page", "1")

    @cached_property
    def schemas(self) -> Sequence[ExtractionSchema]:
        """The newest, for a person to choose from."""
        return list(ExtractionSchema.objects.order_by("-added_at")[:MOST_SCHEMAS])

    @cached_property
    def fields(self) -> dict[str, Column]:
        """Columns of the schema that is chosen."""
        chosen = ExtractionSchema.objects.filter(pk=self.schema).first() if self.schema else None
        names = schema_in(chosen.text)["properties"] if chosen else ()
        return {PREFIX + name: field_column(name) for name in names}

    @cached_property
    def available(self) -> Mapping[str, Column]:
        return {**PLAIN, **self.fields}

    @property
    def columns(self) -> list[Column]:
        return [self.available[name] for name in self.names]

    def rows(self) -> QuerySet[Document]:
        """The papers, without the filter by words, in no order."""
        rows = self.papers.documents(is_large=True)
        if self.fields:
            rows = rows.filter(extraction_schema=self.schema)
        if self.year_from is not None:
            rows = rows.filter(year__gte=self.year_from)
        if self.year_to is not None:
            rows = rows.filter(year__lte=self.year_to)
        return rows

    @cached_property
    def is_large(self) -> bool:
        """Whether there are too many papers to be sorted."""
        return self.rows().order_by()[: MAX_SORTED + 1].count() > MAX_SORTED

    def searched(self, rows: QuerySet[Document]) -> QuerySet[Document]:
        """Those with the words in their column. Each row is read for it."""
        column = self.available.get(self.within)
        if not self.has or column is None or column.text is None:
            return rows
        # SQLite keeps lists as JSON, in which letters beyond ASCII are escaped.
        found = Q(searched__icontains=self.has) | Q(searched__icontains=json.dumps(self.has)[1:-1])
        return rows.annotate(searched=Cast(column.text, TextField())).filter(found)

    def in_order(self, rows: QuerySet[Document]) -> QuerySet[Document]:
        column = self.available.get(self.sort.removeprefix("-")) if self.sort else None
        if column is None or column.sort is None:
            return rows.order_by("-pk")
        rows = rows.annotate(sorted_by=column.sort)
        by = F("sorted_by")
        first = by.desc(nulls_last=True) if self.sort.startswith("-") else by.asc(nulls_last=True)
        return rows.order_by(first, "-pk")

    def loaded(self, rows: QuerySet[Document]) -> QuerySet[Document]:
        """With what the columns need, and the link to the report."""
        needed = {name for column in self.columns for name in column.loads}
        return rows.only("pk", "key", "title", "report_html", *needed)

    def papers_in_order(self) -> Iterator[Document]:
        """All of them, some at a time: sorted if they are few enough."""
        rows = self.rows()
        if not self.is_large:
            keys = list(self.in_order(self.searched(rows)).values_list("pk", flat=True))
            for at in range(0, len(keys), ROWS_PER_QUERY):
                part = keys[at : at + ROWS_PER_QUERY]
                found = self.loaded(Document.objects.all()).in_bulk(part)
                yield from (found[pk] for pk in part if pk in found)
            return
        after = None
        while found_rows := list(
            self.loaded(rows if after is None else rows.filter(pk__lt=after)).order_by("-pk")[:ROWS_PER_QUERY]
        ):
            after = found_rows[-1].pk
            yield from found_rows

    def address(self, **changed: Any) -> str:
        """The parameters with some changed; without empty ones."""
        own: dict[str, Any] = {
            "schema": self.schema, "status": self.papers.status, "kind": self.papers.kind, "q": self.papers.q,
            "year_from": self.year_from, "year_to": self.year_to, "in": self.within if self.has else "",
            "has": self.has, "sort": self.sort,
        }  # fmt: skip
        query = QueryDict(mutable=True)
        query.setlist("column", self.names)
        query.update(
            {name: str(value) for name, value in {**own, **changed}.items() if value not in (None, "")}
        )
        return f"?{query.urlencode()}"


def schema_in(text: str) -> dict[str, Any]:
    """A stored schema, with its fields; without any if it is none."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        schema = None
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
        return schema
    return {"properties": {}}


def _year(given: str | None) -> int | None:
    text = (given or "").strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 4 else None
