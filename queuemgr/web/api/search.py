"""The search over all that has a name."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from queuemgr.reporting.search import LONGEST_TEXT, search
from queuemgr.reporting.search.found import Found
from queuemgr.web import links
from queuemgr.web.api import schemas
from queuemgr.web.api.auth import caller_of, requires

router = Router(tags=["search"])


class FoundOut(Schema):
    """`url`: its page; null where no site has one."""

    text: str
    detail: str
    url: str | None


class KindOut(Schema):
    """Hits of one kind, best first. `more`: there are more; `problem`: why there may be."""

    kind: str
    found: list[FoundOut]
    more: bool
    problem: str


class SearchOut(Schema):
    kinds: list[KindOut]


class SearchIn(schemas.Input):
    q: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT, pattern=schemas.PRINTABLE)]


@router.get("/search", response=SearchOut, **requires("read", "view_execution"))
def search_everything(request: HttpRequest, given: Query[SearchIn]) -> Any:
    """What has this text in its name: the kinds that the caller may see, the best match first."""
    groups = search(given.q, caller_of(request).user.has_perm)
    return SearchOut(
        kinds=[
            KindOut(
                kind=group.kind, more=group.more, problem=group.problem,
                found=[_out(request, each) for each in group.found],
            )
            for group in groups
        ]
    )  # fmt: skip


def _out(request: HttpRequest, found: Found) -> FoundOut:
    page = links.page_of(found)
    return FoundOut(
        text=found.text, detail=found.detail, url=request.build_absolute_uri(page) if page else None
    )
