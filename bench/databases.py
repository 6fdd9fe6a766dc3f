"""The databases of the benchmarks: created by them, and queried from outside the fleet."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from queuemgr.local.private_servers import PostgresServer

KINDS = ("sqlite", "postgres")
READY_SECONDS = 60
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


def kinds(choice: str) -> tuple[str, ...]:
    """The kinds of database that `sqlite`, `postgres` or `both` names."""
    return KINDS if choice == "both" else (choice,)


@dataclass(frozen=True)
class Database:
    """A database for one fleet, in its own directory; empty until it is migrated."""

    directory: Path
    url: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that make a process use this database."""
        return {"DATABASE_URL": self.url, "SLUICE_DATA_DIR": str(self.directory)}

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query, run from outside so that it costs the fleet little."""
        if not self.url:
            path = self.directory / "sluice.sqlite3"
            with closing(sqlite3.connect(path, timeout=30)) as connection:
                return connection.execute(query).fetchall()
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as link:
            return list(link.execute(query.encode()).fetchall())


class Databases:
    """Creates databases of one kind."""

    def __init__(self, root: Path, server: PostgresServer | None) -> None:
        self._root, self._server, self._numbers = root, server, count(1)

    def make(self) -> Database:
        name = f"bench{next(self._numbers)}"
        directory = self._root / name
        directory.mkdir()
        if self._server is None:
            return Database(directory)
        return Database(directory, new_database(self._server, name))


@contextmanager
def databases(kind: str, root: Path) -> Iterator[Databases]:
    """Databases of this kind in this directory; a private PostgreSQL runs as long as the block does."""
    if kind == "sqlite":
        yield Databases(root, None)
        return
    with postgres(root / "postgres") as server:
        yield Databases(root, server)


@contextmanager
def postgres(directory: Path) -> Iterator[PostgresServer]:
    """A private PostgreSQL that accepts connections while the block runs."""
    server = PostgresServer(directory)
    server.start()
    try:
        _wait_until_ready(server)
        yield server
    finally:
        server.stop()


def _wait_until_ready(server: PostgresServer) -> None:
    """PostgreSQL listens a moment before it accepts connections."""
    import psycopg

    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            psycopg.connect(server.url).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def new_database(server: PostgresServer, name: str) -> str:
    """Create a database on a private server; returns its URL."""
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as link:
        link.execute(f"CREATE DATABASE {name}".encode())
    return server.url.rpartition("/")[0] + f"/{name}"
