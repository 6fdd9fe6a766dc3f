"""Keyset pagination by id, newest first: rows inserted or deleted meanwhile shift no page."""

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

MAX_ROWS = 500
VERSION = "1:"


class Paging(Schema):
    """A page of `rows` rows after `cursor`, the previous page's `next`."""

    cursor: str = Field("", max_length=100, pattern="^[A-Za-z0-9_-]*$")
    rows: int = Field(50, ge=1, le=MAX_ROWS)


Page = Annotated[Paging, Query(...)]


@dataclass(frozen=True)
class Found:
    """The rows of one page, and the cursor of the next page (None: this is the last)."""

    rows: Sequence[Any]
    next: str | None


def page_of(rows: QuerySet[Any], paging: Paging) -> Found:
    if paging.cursor:
        rows = rows.filter(pk__lt=_decode(paging.cursor))
    found = list(rows.order_by("-pk")[: paging.rows + 1])
    more = len(found) > paging.rows
    found = found[: paging.rows]
    return Found(found, _encode(found[-1].pk) if more else None)


def _encode(last: int) -> str:
    return base64.urlsafe_b64encode(f"{VERSION}{last}".encode()).decode().rstrip("=")


def _decode(cursor: str) -> int:
    """The id in a cursor; raises `Problem` for one that `_encode` did not make."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        last = int(text.removeprefix(VERSION))
    except (ValueError, binascii.Error):
        last = -1
    if not 0 < last < 2**63 or _encode(last) != cursor:
        raise Problem("invalid", "cursor: use the `next` of the previous page unchanged")
    return last


def refuse_unknown(request: HttpRequest, *known: type[Schema]) -> None:
    """Raise `Problem` for an unknown query parameter: a mistyped filter would match everything."""
    names = [name for model in known for name in model.model_fields]
    unknown = [name for name in request.GET if name not in names]
    if unknown:
        raise Problem("invalid", f"no parameter is called {unknown[0]!r}: {', '.join(names)}")
