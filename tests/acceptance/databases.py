"""A database of its own for every fleet, copied from one that was migrated once.

Looked at from outside through plain drivers, so that a test sees what was committed and nothing else.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from queuemgr.local.private_servers import PostgresServer

FILE = "sluice.sqlite3"
"""What the settings call the SQLite file in the data directory."""


class Database(Protocol):
    """One fleet's database, as its tests see it."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead a process here."""

    def copy(self, directory: Path) -> Database:
        """A new database like this one, which nobody uses, for the fleet of this directory."""

    def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """What a query gives; parameters are marked `%s`."""

    def run(self, statement: str, *parameters: Any) -> None:
        """Run a statement and commit it."""

    def locked(self, table: str) -> AbstractContextManager[None]:
        """Keep everyone from writing to this table while the block runs."""

    def at_rest(self) -> bool:
        """Whether nobody is in the middle of writing, as seen for half a second."""

    def away(self) -> AbstractContextManager[None]:
        """Let nobody work with it while the block runs, as when its server is restarted."""

    def drop(self) -> None:
        """Remove it, whoever is still connected."""


class SqliteFile:
    """A SQLite file in the fleet's data directory."""

    environment: dict[str, str] = {}

    def __init__(self, path: Path) -> None:
        self.path = path

    def copy(self, directory: Path) -> SqliteFile:
        shutil.copy(self.path, directory / FILE)
        return SqliteFile(directory / FILE)

    def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path, timeout=30)) as connection:
            return connection.execute(statement.replace("%s", "?"), parameters).fetchall()

    def run(self, statement: str, *parameters: Any) -> None:
        with closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
            connection.execute(statement.replace("%s", "?"), parameters)

    @contextmanager
    def locked(self, table: str) -> Iterator[None]:
        """SQLite knows one lock for all tables."""
        with closing(sqlite3.connect(self.path, timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")

    def at_rest(self) -> bool:
        with closing(sqlite3.connect(self.path, timeout=0.5, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
        return True

    def away(self) -> AbstractContextManager[None]:
        """A file has no server to restart: it is locked instead."""
        return self.locked("")

    def drop(self) -> None:
        """It goes with its directory."""


class PostgresDatabase:
    """A database of the tests' private PostgreSQL."""

    _numbers = count(1)

    def __init__(self, server: PostgresServer, name: str) -> None:
        self._server, self.name = server, name
        self._connection = _connect(server, name)

    @classmethod
    def create(cls, server: PostgresServer, template: str = "template0") -> PostgresDatabase:
        name = f"fleet_{next(cls._numbers)}"
        _as_owner(server, f"CREATE DATABASE {name} TEMPLATE {template}")
        return cls(server, name)

    @property
    def environment(self) -> dict[str, str]:
        return {"DATABASE_URL": f"{self._server.url.rpartition('/')[0]}/{self.name}"}

    def copy(self, directory: Path) -> PostgresDatabase:
        self._connection.close()
        return self.create(self._server, self.name)

    def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return list(self._connection.execute(statement, parameters).fetchall())

    def run(self, statement: str, *parameters: Any) -> None:
        self._connection.execute(statement, parameters)

    @contextmanager
    def locked(self, table: str) -> Iterator[None]:
        with closing(_connect(self._server, self.name)) as connection, connection.transaction():
            connection.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
            yield

    def at_rest(self) -> bool:
        time.sleep(0.5)
        [(under_way,)] = self.rows(
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND xact_start < now() - interval '0.4 s'"
        )
        return not under_way

    @contextmanager
    def away(self) -> Iterator[None]:
        """Every connection ended, and no new one let in."""
        self._connection.close()
        _as_owner(self._server, f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS false")
        _as_owner(
            self._server,
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.name}'",
        )
        try:
            yield
        finally:
            _as_owner(self._server, f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS true")
            self._connection = _connect(self._server, self.name)

    def drop(self) -> None:
        self._connection.close()
        _as_owner(self._server, f"DROP DATABASE {self.name} WITH (FORCE)")


def _connect(server: PostgresServer, name: str) -> Any:
    import psycopg

    return psycopg.connect(server.url, dbname=name, autocommit=True)


def _as_owner(server: PostgresServer, statement: str) -> None:
    with closing(_connect(server, "postgres")) as connection:
        connection.execute(statement)
