"""Reads the fleet's tables from outside through plain drivers, with one connection per query: the database
may be down."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class Unreachable(Exception):
    """The database does not answer now."""


class Tables:
    """Rows of a database as dictionaries; times as Unix seconds."""

    def __init__(self, *, url: str = "", file: Path | None = None) -> None:
        self._url, self._file = url, file

    def rows(self, statement: str) -> list[Row]:
        """The rows of a query; raises `Unreachable`."""
        return self._of_postgres(statement) if self._url else self._of_sqlite(statement)

    def _of_postgres(self, statement: str) -> list[Row]:
        import psycopg

        try:
            with psycopg.connect(self._url, autocommit=True, connect_timeout=5) as connection:
                found = connection.execute(statement.encode())
                names = [column.name for column in found.description or ()]
                return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        except psycopg.Error as error:
            raise Unreachable(str(error)) from error

    def _of_sqlite(self, statement: str) -> list[Row]:
        try:
            with closing(sqlite3.connect(str(self._file), timeout=30)) as connection:
                found = connection.execute(statement)
                names = [column[0] for column in found.description]
                return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        except sqlite3.OperationalError as error:
            raise Unreachable(str(error)) from error


def seconds(moment: Any) -> float:
    """A time of either driver in Unix seconds; SQLite's are text in UTC."""
    if isinstance(moment, str):
        return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
    return float(moment.timestamp())
