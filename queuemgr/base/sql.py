"""Running SQL by hand where a statement runs thousands of times a second: values in, values out.

The hot path (begin, finish, decide, lease) is written in SQL because building a query costs the ORM
several times what the database needs to run it; everything else uses the ORM. Both databases speak
the same statements but for the types in `TYPES`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection

TYPES: dict[str, dict[str, str]] = {
    "postgresql": {
        "time": "%s::timestamptz",
        "integer": "%s::integer",
        "text": "%s::text",
        "lock_taken": "FOR UPDATE OF l FOR NO KEY UPDATE OF e",
    },
    "sqlite": {
        **dict.fromkeys(("time", "integer", "text"), "%s"),
        "lock_taken": "",
    },
}
"""What differs: PostgreSQL must be told the type of a bare parameter in a SELECT list."""


def rows(statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run a statement that gives rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement, _given(parameters))
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def run(statement: str, parameters: Sequence[Any] = ()) -> int:
    """Run a statement that gives none; returns how many rows it touched."""
    with connection.cursor() as cursor:
        cursor.execute(statement, _given(parameters))
        return int(cursor.rowcount)


def run_each(statement: str, many: Sequence[Sequence[Any]]) -> None:
    """Run a statement once for each set of values, with few trips to the database."""
    with connection.cursor() as cursor:
        if len(many) == 1:
            cursor.execute(statement, _given(many[0]))
        else:
            cursor.executemany(statement, [_given(values) for values in many])


def typed(statement: str, **parts: str) -> str:
    """The statement with this database's types and the given parts put in."""
    return statement.format(**TYPES[connection.vendor], **parts)


def marks(count: int) -> str:
    """So many parameter marks."""
    return ", ".join(["%s"] * count)


def _given(parameters: Sequence[Any]) -> list[Any]:
    """The values as this database's driver takes them."""
    adapt = _ADAPTERS[connection.vendor]
    return [adapt[type(v)](v) if type(v) in adapt else v for v in parameters]


_ADAPTERS: dict[str, dict[type, Callable[[Any], Any]]] = {
    "postgresql": {dict: json.dumps},
    "sqlite": {
        dict: json.dumps,
        datetime: lambda moment: str(moment.astimezone(UTC).replace(tzinfo=None)),
        date: date.isoformat,
        UUID: lambda value: value.hex,
    },
}


def as_datetime(value: Any) -> datetime:
    """A moment out of a statement; SQLite gives UTC without saying so, as text for expressions."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def as_date(value: Any) -> date:
    return value if isinstance(value, date) else date.fromisoformat(value)


def as_uuid(value: Any) -> UUID:
    """An id out of a statement; SQLite gives 32 hex digits."""
    return value if isinstance(value, UUID) else UUID(value)


def as_json(value: Any) -> Any:
    """JSON out of a statement: text on both, since Django's PostgreSQL connection leaves it so."""
    return json.loads(value) if isinstance(value, str) else value


FROZEN = "25P03"
"""PostgreSQL's idle_in_transaction_session_timeout: it ended the session of one that slept too long."""


def is_away(error: BaseException) -> bool:
    """Whether this error says that the database or the session is gone: worth another try."""
    frozen = getattr(error.__cause__ or error, "sqlstate", None) == FROZEN
    return frozen or isinstance(error, _away_errors())


@lru_cache(maxsize=1)
def _away_errors() -> tuple[type[Exception], ...]:
    errors: list[type[Exception]] = [OperationalError, InterfaceError]
    with suppress(ImportError):
        import psycopg

        errors.append(psycopg.OperationalError)
    return tuple(errors)
