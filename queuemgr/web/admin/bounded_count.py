"""Counting rows as far as a person reads, and no further: tables here may hold millions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.utils.functional import cached_property

if TYPE_CHECKING:
    _Paginator = Paginator[Any]
else:
    _Paginator = Paginator

MOST = 10_000


class AtLeast(int):
    """A count that was not taken to its end: `10,000+`."""

    def __str__(self) -> str:
        return f"{int(self):,}+"


class BoundedPaginator(_Paginator):
    """Counts, and turns pages, up to `MOST` rows; what lies beyond is met by filter and search."""

    def __init__(self, *given: Any, counted: int | None = None) -> None:
        """`counted`: how many rows there are, at least up to the bound, where that is known."""
        super().__init__(*given)
        self._counted = counted

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        known = self._counted
        found = int(rows.order_by()[: MOST + 1].count()) if known is None else known
        return AtLeast(MOST) if found > MOST else found
