"""Distinct values of indexed columns, by one index lookup per value instead of a table scan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from django.db.models import Model

from queuemgr.base import sql

_VALUES = """
    {column}_found(value) AS (
        SELECT MIN({column}) FROM {table} WHERE NOT ({column} = '')
        UNION ALL
        SELECT (SELECT MIN({column}) FROM {table}
                 WHERE NOT ({column} = '') AND {column} > {column}_found.value)
          FROM {column}_found WHERE {column}_found.value IS NOT NULL)
"""


class _Found(NamedTuple):
    column: str
    value: str | None


def loose_index_scan(model: type[Model], *columns: str) -> Mapping[str, list[str]]:
    """The distinct non-empty values of each column, ascending, in one statement.

    Each column must be the first of an index. The condition is written as in the partial index on
    error kinds: SQLite uses a partial index only for the same expression.
    """
    table = model._meta.db_table
    scans = ", ".join(_VALUES.format(column=column, table=table) for column in columns)
    each = (f"SELECT '{column}', value FROM {column}_found" for column in columns)
    values: dict[str, list[str]] = {column: [] for column in columns}
    for row in sql.rows(_Found, f"WITH RECURSIVE {scans} {' UNION ALL '.join(each)}"):
        if row.value is not None:
            values[row.column].append(row.value)
    return {column: sorted(some) for column, some in values.items()}
