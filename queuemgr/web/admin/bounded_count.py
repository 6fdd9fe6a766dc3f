"""A paginator that counts up to a bound: tables may hold millions of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.utils.functional import cached_property

if TYPE_CHECKING:
    _Paginator = Paginator[Any]
else:
    _Paginator = Paginator

MAX_COUNT = 10_000


class AtLeast(int):
    """A lower bound of a count: `10,000+`."""

    def __str__(self) -> str:
        return f"{int(self):,}+"


class BoundedPaginator(_Paginator):
    """Counts and pages up to `MAX_COUNT` rows; rows beyond are found by filter and search."""

    def __init__(self, *given: Any, counted: int | None = None) -> None:
        """`counted`: the number of rows, at least up to the bound, if it is known."""
        super().__init__(*given)
        self._counted = counted

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        known = self._counted
        found = int(rows.order_by()[: MAX_COUNT + 1].count()) if known is None else known
        return AtLeast(MAX_COUNT) if found > MAX_COUNT else found
