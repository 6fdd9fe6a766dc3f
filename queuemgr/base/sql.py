"""Hand-written SQL, for statements that run thousands of times a second or that the ORM cannot express.

The hot path (begin, finish, schedule) is written in SQL because building a query costs the ORM several
times what the database needs to run it, and reports where one statement answers what would take the ORM
many. Everything else uses the ORM. Both databases speak the same statements but for the types in `TYPES`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from types import UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

from django.db import InterfaceError, OperationalError
from django.db.models import Q

from queuemgr.base.queue_database import connection
from queuemgr.base.raised import is_raised
from queuemgr.base.redaction import message_of

TYPES: dict[str, dict[str, str]] = {
    "postgresql": {
        "time": "%s::timestamptz",
        "integer": "%s::integer",
        "text": "%s::text",
        "uuid": "%s::uuid",
        "lock_taken": "FOR UPDATE OF l FOR NO KEY UPDATE OF e",
        "lock_free": "FOR UPDATE OF l SKIP LOCKED FOR NO KEY UPDATE OF e SKIP LOCKED",
        "pass_over": " FOR NO KEY UPDATE SKIP LOCKED",
        "lock_rows": " FOR NO KEY UPDATE",
        "keep": " FOR KEY SHARE OF l",
        "as_sorted": ' COLLATE "C"',
        "now": "clock_timestamp()",
    },
    "sqlite": {
        **dict.fromkeys(("time", "integer", "text", "uuid"), "%s"),
        **dict.fromkeys(("lock_taken", "lock_free", "pass_over", "lock_rows", "keep", "as_sorted"), ""),
        "now": "NULL",
    },
}
"""What differs: PostgreSQL must know the type of a bare parameter in a SELECT list, and orders text by the
language of the database, if it is not told to order it as Python does."""


Row = TypeVar("Row", bound=NamedTuple)


def rows(row_type: type[Row], statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
    """Run a statement and return its rows as this NamedTuple, whose fields are the columns in order.

    Fields annotated `datetime`, `date`, `UUID`, `bool` or `dict` (or None) hold that on both databases.
    Raises `TypeError` when the statement returns another number of columns.
    """
    readers = _readers(row_type)
    return [row_type._make(_read(row, readers)) for row in _fetch(statement, parameters)]


def column(statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
    """The values of the one column a statement returns."""
    return [value for (value,) in _fetch(statement, parameters)]


def value(statement: str, parameters: Sequence[Any] = ()) -> Any:
    """The single value a statement returns; raises `ValueError` for another number of rows or columns."""
    ((result,),) = _fetch(statement, parameters)
    return result


def _fetch(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, adapted(parameters))
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _read(row: tuple[Any, ...], readers: Sequence[tuple[int, Callable[[Any], Any]]]) -> list[Any]:
    values = list(row)
    for index, reader in readers:
        if values[index] is not None:
            values[index] = reader(values[index])
    return values


@cache
def _readers(row_type: type[NamedTuple]) -> list[tuple[int, Callable[[Any], Any]]]:
    """The columns of such a row that must be converted, and how."""
    readers = []
    for index, annotation in enumerate(get_type_hints(row_type).values()):
        kinds = get_args(annotation) if get_origin(annotation) is UnionType else (annotation,)
        origins = [get_origin(kind) or kind for kind in kinds]
        readers += [(index, _READERS[origin]) for origin in origins if origin in _READERS]
    return readers


def run(statement: str, parameters: Sequence[Any] = ()) -> int:
    """Run a statement that returns no rows; returns how many rows it changed."""
    with connection.cursor() as cursor:
        cursor.execute(statement, adapted(parameters))
        return int(cursor.rowcount)


def run_each(statement: str, many: Sequence[Sequence[Any]]) -> None:
    """Run a statement once for each set of values, in few round trips."""
    with connection.cursor() as cursor:
        if len(many) == 1:
            cursor.execute(statement, adapted(many[0]))
        else:
            cursor.executemany(statement, [adapted(values) for values in many])


def begin_with(settings: Mapping[str, int]) -> datetime:
    """On PostgreSQL, at the beginning of a block: give these settings these values until the transaction
    ends, in the round trip that begins it, if nothing has yet. Returns the server's time."""
    with connection.cursor() as cursor, connection.wrap_database_errors:
        driver = cursor.connection
        sent = [f"SET LOCAL {name} = {int(value)}" for name, value in settings.items()]
        if connection.in_atomic_block and driver.info.transaction_status.name == "IDLE":
            level = driver.isolation_level  # as the driver begins one itself before its first statement
            sent.insert(0, "BEGIN" + (f" ISOLATION LEVEL {level.name.replace('_', ' ')}" if level else ""))
        result = driver.pgconn.exec_("; ".join([*sent, _NOW]).encode())
        if result.error_message:
            raise _error_of(result)
        return _EPOCH + timedelta(microseconds=int(result.get_value(0, 0)))


_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _error_of(result: Any) -> Exception:
    """The error that the driver raises for it; a lost session has no code."""
    from psycopg import OperationalError, errors, pq

    if result.error_field(pq.DiagnosticField.SQLSTATE):
        return errors.error_from_result(result)
    return OperationalError(result.error_message.decode(errors="replace"))


def typed(statement: str, **parts: str) -> str:
    """The statement with this database's types and the given parts filled in."""
    return statement.format(**TYPES[connection.vendor], **parts)


def marks(count: int) -> str:
    """So many parameter placeholders, separated by commas."""
    return ", ".join(["%s"] * count)


def adapted(parameters: Sequence[Any]) -> list[Any]:
    """The values as this database's driver expects them."""
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
    """A time read by a statement; SQLite returns naive UTC, as text for expressions."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_READERS: dict[Any, Callable[[Any], Any]] = {
    bool: bool,
    datetime: as_datetime,
    date: lambda value: value if isinstance(value, date) else date.fromisoformat(value),
    UUID: lambda value: value if isinstance(value, UUID) else UUID(value),
    dict: lambda value: json.loads(value) if isinstance(value, str) else value,
}
"""SQLite returns dates as text and ids as hex digits; JSON is text on both, since Django turns off the
driver's decoding."""


FROZEN = "25P03"
"""SQLSTATE of a session that idle_in_transaction_session_timeout ended: the process had been frozen."""


LOCK_NOT_AVAILABLE = "55P03"
"""SQLSTATE of a statement that waited for a lock for longer than its lock_timeout."""


def is_away(error: BaseException) -> bool:
    """Whether this error says that the database or the session is gone, so that another try may work."""
    if is_busy(error) or is_conflict(error):
        return False
    return sqlstate(error) == FROZEN or is_raised(error, _away_errors())


def is_busy(error: BaseException) -> bool:
    """Whether somebody else held a lock for longer than this transaction waits."""
    return sqlstate(error) == LOCK_NOT_AVAILABLE


def is_conflict(error: BaseException) -> bool:
    """Whether the database undid this transaction for another one (SQLSTATE class 40: a deadlock, a
    serialization failure): run again it may succeed."""
    return sqlstate(error).startswith("40")


DISK_FULL = "53100"
"""SQLSTATE of a statement that found no space left on the device."""


def is_full(error: BaseException) -> bool:
    """Whether the database has no space left for what was to be written; something smaller may still fit."""
    if state := sqlstate(error):
        return state == DISK_FULL
    return is_raised(error, OperationalError) and "disk is full" in message_of(error)


_CANNOT_NOW = ("08", "53", "57P", "58")
"""SQLSTATE classes: the connection broke, the server lacks disk, memory or connections, it shuts down or
starts, or its own files fail (https://www.postgresql.org/docs/current/errcodes-appendix.html)."""

_SQLITE_CANNOT_NOW = ("disk is full", "disk I/O error", "database is locked", "unable to open database file")


def cannot_now(error: BaseException) -> bool:
    """Whether the database could do nothing of the kind for anybody just now: it is no fault of the
    statement, and the same may succeed once there is disk again, or the server is up."""
    if state := sqlstate(error):
        return state.startswith(_CANNOT_NOW)
    words = message_of(error) if is_raised(error, OperationalError) else ""
    return any(each in words for each in _SQLITE_CANNOT_NOW)


def is_passing(error: BaseException) -> bool:
    """Whether the same may succeed a little later, as it is."""
    return is_away(error) or is_busy(error) or is_conflict(error)


def trouble(error: BaseException) -> str:
    """What a passing error says of the database, as the words of a log line."""
    words = next(iter(str(error).splitlines()), type(error).__name__)
    if is_busy(error):
        return f"somebody else holds a lock in the database ({words})"
    if is_conflict(error):
        return f"the database undid a transaction for another one ({words})"
    if is_full(error):
        return f"the database has no space left ({words})"
    return f"the database does not answer ({words})"


def sqlstate(error: BaseException) -> str:
    """The code of PostgreSQL (its manual's appendix A); empty where the server sent none."""
    try:
        own, cause = getattr(error, "sqlstate", None), error.__cause__
        code = getattr(cause, "sqlstate", None) if own is None else own
    except BaseException:  # the application's, whose attributes may do anything
        return ""
    return code if type(code) is str else ""


@lru_cache(maxsize=1)
def _away_errors() -> tuple[type[Exception], ...]:
    errors: list[type[Exception]] = [OperationalError, InterfaceError]
    with suppress(ImportError):
        import psycopg

        errors.append(psycopg.OperationalError)
    return tuple(errors)


LAST_CHARACTER = "\U0010ffff"


def contains(column: str) -> str:
    """A condition with one parameter, `containing(text)`: the column contains the text, in either case."""
    return f"{column} {'LIKE' if connection.vendor == 'sqlite' else 'ILIKE'} %s ESCAPE '!'"


def containing(text: str) -> str:
    """The pattern of what contains this text."""
    escaped = re.sub("([!%_])", r"!\1", text)
    return f"%{escaped}%"


def starts_with(column: str, prefix: str) -> Q:
    """Rows whose column starts with this, found by its index: SQLite uses none for LIKE, but compares
    text by bytes, so there a range means the same."""
    if connection.vendor == "sqlite":
        return Q(**{f"{column}__gte": prefix, f"{column}__lt": prefix + LAST_CHARACTER})
    return Q(**{f"{column}__startswith": prefix})
