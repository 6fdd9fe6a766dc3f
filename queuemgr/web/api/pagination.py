"""Pages of rows by id, newest first: rows that come or go between two requests shift nothing."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Field, Query, Schema

from queuemgr.web.api.problems import Problem

MOST = 500
VERSION = "1:"


class Paging(Schema):
    """Which page: so many `rows` from where `cursor` (the last page's `next`) ended."""

    cursor: str = Field("", max_length=100, pattern="^[A-Za-z0-9_-]*$")
    rows: int = Field(50, ge=1, le=MOST)


Page = Annotated[Paging, Query(...)]


@dataclass(frozen=True)
class Found:
    """The rows of one page, and the cursor of the next; None when this was the last."""

    rows: Sequence[Any]
    next: str | None


def page_of(rows: QuerySet[Any], paging: Paging) -> Found:
    """One page of rows, by descending id."""
    if paging.cursor:
        rows = rows.filter(pk__lt=_read(paging.cursor))
    found = list(rows.order_by("-pk")[: paging.rows + 1])
    more = len(found) > paging.rows
    found = found[: paging.rows]
    return Found(found, _made(found[-1].pk) if more else None)


def _made(last: int) -> str:
    return base64.urlsafe_b64encode(f"{VERSION}{last}".encode()).decode().rstrip("=")


def _read(cursor: str) -> int:
    """The id a cursor stands for; raises `Problem` for one that is none of ours."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        last = int(text.removeprefix(VERSION))
    except (ValueError, binascii.Error):
        last = -1
    if not 0 < last < 2**63 or _made(last) != cursor:
        raise Problem("invalid", "cursor: take the `next` of the page before as it is")
    return last


def refuse_unknown(request: HttpRequest, *known: type[Schema]) -> None:
    """Raise `Problem` for a parameter nobody knows: a mistyped filter would mean everything."""
    names = [name for model in known for name in model.model_fields]
    unknown = [name for name in request.GET if name not in names]
    if unknown:
        raise Problem("invalid", f"no parameter is called {unknown[0]!r}: {', '.join(names)}")
