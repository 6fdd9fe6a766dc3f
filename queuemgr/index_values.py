"""The distinct values of a column, by one look at an index for each: never a pass over the table."""

from __future__ import annotations

from django.db.models import Model

from queuemgr import sql

_NEXT_VALUE = """
    WITH RECURSIVE found(value) AS (
        SELECT MIN({column}) FROM {table} WHERE NOT ({column} = '')
        UNION ALL
        SELECT (SELECT MIN({column}) FROM {table}
                 WHERE NOT ({column} = '') AND {column} > found.value)
          FROM found WHERE found.value IS NOT NULL)
    SELECT value FROM found WHERE value IS NOT NULL
"""


def values_by_index(model: type[Model], column: str) -> list[str]:
    """The distinct values of a column an index begins with: one look at the index for each.

    SQLite uses the partial index on errors only for a condition worded as the index words it.
    """
    statement = _NEXT_VALUE.format(column=column, table=model._meta.db_table)
    return [str(value) for (value,) in sql.rows(statement)]
