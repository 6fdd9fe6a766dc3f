"""The collection as files that need no server: a table to sort, counts, failures, and every report.

Each file is written beside and renamed, so a reader meets the earlier one or the new one.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any

from django.core.files.storage import default_storage
from django.template.loader import render_to_string

from pipeline.models import Document
from pipeline.web.collection import HEADINGS, Row, counts, failures, rows_of

A_FILE = 10_000
"""Rows in one file: as many as a browser still shows and sorts within a second."""

CHUNK = 500
"""Documents read at once."""


def write(directory: Path, shown: Callable[[Iterable[Row]], Iterable[Row]]) -> tuple[int, int]:
    """Write `index.html`, `index-2.html` and so on, and `reports/`; returns papers and pages.

    `shown` is passed every row, to show progress by. Raises `OSError`.
    """
    (directory / "reports").mkdir(parents=True, exist_ok=True)
    rows = iter(shown(_with_copied_report(row, directory) for row in every_row()))
    told = {
        "counts": [(word, count, "") for word, count in counts().most_common()],
        "failures": [(failure, "") for failure in failures()],
    }
    papers = pages = 0
    some = list(islice(rows, A_FILE))
    while some or not pages:
        pages, papers, following = pages + 1, papers + len(some), list(islice(rows, A_FILE))
        links = {
            "earlier": page_name(pages - 1) if pages > 1 else "",
            "later": page_name(pages + 1) if following else "",
        }
        with beside(directory / page_name(pages)) as file:
            file.write(page_of(some, {**told, **links}).encode())
        some = following
    return papers, pages


def every_row() -> Iterator[Row]:
    """Every paper, the oldest first, a chunk at a time."""
    after = 0
    while rows := rows_of(Document.objects.filter(pk__gt=after).order_by("pk")[:CHUNK]):
        after = rows[-1].pk
        yield from rows


def page_name(number: int) -> str:
    return "index.html" if number == 1 else f"index-{number}.html"


def page_of(rows: list[Row], told: dict[str, Any]) -> str:
    """One page of the table. Its policy lets the one script run that sorts it, and nothing else."""
    script = render_to_string("papers/sort.js").encode()
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    page = {"rows": rows, "headings": HEADINGS, "policy": policy, **told}
    return render_to_string("papers/collection.html", page)


def _with_copied_report(row: Row, directory: Path) -> Row:
    """The row with its report as a file of the collection; without one where it is not on the storage."""
    if not row.report:
        return row
    name = f"reports/{PurePosixPath(row.report).name}"
    try:
        with default_storage.open(row.report, "rb") as stored, beside(directory / name) as file:
            shutil.copyfileobj(stored, file)
    except FileNotFoundError:
        return replace(row, report="")
    return replace(row, report=name)


@contextmanager
def beside(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` once it is whole; else what was there stays."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
