"""Executions that are to be inserted, as the columns and the values of a statement."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from django.db.models import Field

from queuemgr.base.queue_database import connection
from queuemgr.base.scheduler_lock import clock, database_now
from queuemgr.models import Execution

_FIELDS = [field for field in Execution._meta.concrete_fields if not field.primary_key]
_UNIQUE_UNTIL = Execution._meta.get_field("unique_until")

FEW = 5
"""So many rows are a list of values, whose text the driver and the server know from the time before."""


BY_ITS_CLOCK = {"postgresql": "clock_timestamp() + %s::interval", "sqlite": "%s"}
"""Times at which unique keys end, and that they are compared with, are of the database's clock; SQLite has
that of the machine."""


def values_of(rows: Sequence[Execution]) -> tuple[str, list[Any]]:
    """What follows the columns in the statement, and its parameters."""
    several = connection.vendor == "postgresql" and len(rows) > FEW
    return _as_arrays(rows) if several else _as_rows(rows)


@cache
def columns(vendor: str) -> str:
    """The names of the columns, which its parameters are in the order of."""
    return ", ".join(connection.ops.quote_name(str(field.column)) for field in _FIELDS)


def _as_rows(rows: Sequence[Execution]) -> tuple[str, list[Any]]:
    values = f"VALUES {', '.join([_values(connection.vendor)] * len(rows))}"
    return values, [_inserted(row, f) for row in rows for f in _FIELDS]


@cache
def _values(vendor: str) -> str:
    return f"({', '.join('%s' if f is not _UNIQUE_UNTIL else BY_ITS_CLOCK[vendor] for f in _FIELDS)})"


def _as_arrays(rows: Sequence[Execution]) -> tuple[str, list[Any]]:
    """One parameter a column: the text of a statement with ten thousand marks takes longer to read, for the
    driver and for the server, than the rows to insert."""
    names = [f"c{number}" for number in range(len(_FIELDS))]
    kinds = ["interval" if f is _UNIQUE_UNTIL else str(f.db_type(connection)) for f in _FIELDS]
    chosen = [
        f"clock_timestamp() + {name}" if f is _UNIQUE_UNTIL else name
        for name, f in zip(names, _FIELDS, strict=True)
    ]
    arrays = ", ".join(f"%s::{kind}[]" for kind in kinds)
    values = f"SELECT {', '.join(chosen)} FROM unnest({arrays}) AS new ({', '.join(names)})"
    return values, [[_inserted(row, f) for row in rows] for f in _FIELDS]


def _inserted(row: Execution, field: Field[Any, Any]) -> Any:
    if field is not _UNIQUE_UNTIL:
        return field.get_db_prep_save(field.pre_save(row, True), connection)
    window = row.unique_window
    if window is None:
        return None
    return window + clock.ahead if connection.vendor == "postgresql" else database_now() + window
