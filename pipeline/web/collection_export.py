"""The collection as static files: a sortable table, counts, failures, and every report.

Each file is replaced atomically, so that a reader sees either the old or the new one.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from django.template.loader import render_to_string

from pipeline import storage
from pipeline.models import Document
from pipeline.web.collection import HEADINGS, Row, counts, failures, rows_of

ROWS_PER_FILE = 10_000
"""Rows in one file: as many as a browser can show and sort within a second."""

ROWS_PER_QUERY = 500
"""Documents read by one query."""


class Written(NamedTuple):
    papers: int
    pages: int


def write(directory: Path, shown: Callable[[Iterable[Row]], Iterable[Row]]) -> Written:
    """Write `index.html`, `index-2.html` and so on, and `reports/`; returns how many.

    `shown` wraps the rows, to show progress. Raises `OSError`, and `StorageFailed`.
    """
    (directory / "reports").mkdir(parents=True, exist_ok=True)
    rows = iter(shown(_with_copied_report(row, directory) for row in every_row()))
    common = {
        "counts": [(word, count, "") for word, count in counts().most_common()],
        "failures": [(failure, "") for failure in failures()],
    }
    papers = pages = 0
    batch = list(islice(rows, ROWS_PER_FILE))
    while batch or not pages:
        pages, papers, following = pages + 1, papers + len(batch), list(islice(rows, ROWS_PER_FILE))
        links = {
            "earlier": page_name(pages - 1) if pages > 1 else "",
            "later": page_name(pages + 1) if following else "",
        }
        with replaced_file(directory / page_name(pages)) as file:
            file.write(page_of(batch, {**common, **links}).encode())
        batch = following
    return Written(papers, pages)


def every_row() -> Iterator[Row]:
    """Every paper, the oldest first."""
    after = 0
    while rows := rows_of(Document.objects.filter(pk__gt=after).order_by("pk")[:ROWS_PER_QUERY]):
        after = rows[-1].pk
        yield from rows


def page_name(number: int) -> str:
    return "index.html" if number == 1 else f"index-{number}.html"


def page_of(rows: list[Row], common: dict[str, Any]) -> str:
    """One page of the table. Its policy allows only the script that sorts it."""
    script = render_to_string("papers/sort.js").encode()
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    page = {"rows": rows, "headings": HEADINGS, "policy": policy, **common}
    return render_to_string("papers/collection.html", page)


def _with_copied_report(row: Row, directory: Path) -> Row:
    """The row with a copy of its report, or without a report if there is none on the storage."""
    if not row.report:
        return row
    name = f"reports/{PurePosixPath(row.report).name}"
    try:
        with storage.opened(row.report) as stored, replaced_file(directory / name) as file:
            file.write(without_local_links(stored.read()))
    except storage.FileMissing:
        return replace(row, report="")
    return replace(row, report=name)


FILES = re.compile(rb'<nav class="files".*?</nav>\n?')
LOCAL_LINK = re.compile(rb'<a class="local" href="[a-z0-9/]*">([^<]*)</a>')
"""As the template of the report writes them; text of a paper has no tags there."""


def without_local_links(page: bytes) -> bytes:
    """A report without what only a web server can show."""
    return LOCAL_LINK.sub(rb"\1", FILES.sub(b"", page, count=1))


@contextmanager
def replaced_file(path: Path) -> Iterator[IO[bytes]]:
    """A temporary file that replaces `path` if the block succeeds."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
