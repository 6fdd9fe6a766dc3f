"""Lists of values in statements whose text does not depend on how many values there are.

The driver keeps the parsed text of a statement that it has seen before, and PostgreSQL its plan: with a mark
for each value every number of values would be another one. So a list is one parameter there, an array. SQLite
has no arrays, and compiles a statement in less time than it takes to read a list as JSON.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from django.db.models import Field

from queuemgr.base import sql
from queuemgr.base.queue_database import connection

ROWS_PER_STATEMENT = 1000
"""SQLite allows 32,766 parameters in a statement."""


class Listed(NamedTuple):
    """A piece of a statement, and its parameters."""

    text: str
    values: list[Any]


NOTHING = Listed("", [])


def among(kind: str, values: Collection[Any]) -> Listed:
    """What follows a column that is one of these values, of which there is one at least."""
    if connection.vendor == "postgresql":
        return Listed(f"= ANY(%s::{kind}[])", [list(values)])
    return Listed(f"IN ({sql.marks(len(values))})", list(values))


def table(kinds: Sequence[str], rows: Sequence[Sequence[Any]]) -> Listed:
    """These rows, of which there is one at least, as a SELECT of column1, column2 and so on."""
    if connection.vendor == "postgresql":
        arrays = ", ".join(f"%s::{kind}[]" for kind in kinds)
        names = ", ".join(f"column{number}" for number in range(1, len(kinds) + 1))
        columns = zip(*(sql.adapted(row) for row in rows), strict=True)
        return Listed(f"SELECT * FROM unnest({arrays}) AS listed ({names})", [list(c) for c in columns])
    marks = f"({sql.marks(len(kinds))})"
    return Listed(f"VALUES {', '.join([marks] * len(rows))}", [value for row in rows for value in row])


def tables(kinds: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[Listed]:
    """As `table`, as many as it takes for these rows; none for none."""
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        yield table(kinds, rows[start : start + ROWS_PER_STATEMENT])


def kind_of(field: Field[Any, Any]) -> str:
    """The type of a column, in an array: without its length, to which a cast would cut a text."""
    return str(field.db_type(connection)).partition("(")[0]
