"""Faults of the database: cut off, locked by someone else, out of disk, and restored from a backup."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, LiteralString

from proof.faults.fault import Fault, Scene
from proof.plan import PlannedFault
from proof.records import Rewind
from queuemgr.base import scheduler_lock

FREE_BYTES = 16 * 2**10
"""What a full disk has left."""

BLOCK = 2**20


class RestartDatabase:
    """PostgreSQL's immediate shutdown, which cuts every connection; it recovers when started again."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        if scene.fleet.postgres:
            scene.fleet.postgres.stop_at_once()

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        if scene.fleet.postgres and not scene.fleet.postgres.alive:
            scene.fleet.postgres.start_again()


class ForeignLock:
    """A session of someone else holds a lock of the queue: one of its advisory locks, by the seed, or
    SQLite's write lock."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        self._held: list[Any] = []
        if scene.fleet.postgres:
            self._lock_postgres(scene.fleet.postgres.url, planned)
        else:
            self._lock_sqlite(scene.fleet.disk / "sluice.sqlite3")

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        for connection in self._held:
            with suppress(Exception):
                connection.close()

    def _lock_postgres(self, url: str, planned: PlannedFault) -> None:
        import psycopg

        with suppress(psycopg.Error):
            connection = psycopg.connect(url, autocommit=True, connect_timeout=5)
            self._held.append(connection)
            connection.execute("SET lock_timeout = '20s'")
            capped = [pk for (pk,) in connection.execute(CAPPED_QUEUES)]
            connection.execute(*taking(chosen(advisory_locks(capped), planned.seed)))

    def _lock_sqlite(self, file: Path) -> None:
        connection = sqlite3.connect(file, timeout=20, isolation_level=None, check_same_thread=False)
        self._held.append(connection)
        with suppress(sqlite3.Error):
            connection.execute("BEGIN IMMEDIATE")


CAPPED_QUEUES = "SELECT id FROM queuemgr_queue WHERE max_pending > 0 ORDER BY id"
"""Those whose locks are taken: who enqueues into one does."""

Lock = tuple[int, ...]
"""A lock's key: one number, or two, which are a space of their own."""


def advisory_locks(queues: Sequence[int]) -> list[list[Lock]]:
    """The keys of all advisory locks of the queue, by kind: the scheduler lock, and those of these queues."""
    of_queues: list[Lock] = [(scheduler_lock.QUEUE_LOCKS, pk) for pk in queues]
    return [[(scheduler_lock.SCHEDULER_LOCK,)], *([of_queues] if of_queues else [])]


def chosen(kinds: Sequence[Sequence[Lock]], seed: int) -> Lock:
    """A lock of any kind, each kind as often as the other."""
    number, kind = divmod(seed, len(kinds))
    return kinds[kind][number % len(kinds[kind])]


def taking(lock: Lock) -> tuple[LiteralString, Lock]:
    """The statement that takes a lock for a session, and its parameters."""
    return f"SELECT pg_advisory_lock({'%s, %s' if len(lock) == 2 else '%s'})", lock


class FullDatabaseDisk:
    """The file system of the database is full, its log included; then it has room again."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        self._ballast = scene.fleet.disk / "ballast"
        with open(self._ballast, "wb", buffering=0) as file, suppress(OSError):
            while (free := shutil.disk_usage(scene.fleet.disk).free - FREE_BYTES) > 0:
                file.write(bytes(min(free, BLOCK)))

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        self._ballast.unlink()
        if scene.fleet.postgres:
            time.sleep(0.2)
            if not scene.fleet.postgres.alive:
                scene.fleet.postgres.start_again()


class RestoreBackup:
    """A backup is taken, and restored under the running fleet after a while: what was written since is
    gone."""

    def begin(self, scene: Scene, planned: PlannedFault) -> None:
        self._file = scene.fleet.directory / "backup"
        with scene.work.turn:
            self._at = time.time()  # what is written while it is taken may be in it, or not
            self._saved = self._save(scene)

    def end(self, scene: Scene, planned: PlannedFault) -> None:
        if not self._saved:
            return
        with scene.work.turn:
            began = time.time()
            if self._load(scene):
                scene.work.rewound(self._at, began)
                scene.rewinds.append(Rewind(self._at, began, time.time()))

    def _save(self, scene: Scene) -> bool:
        server = scene.fleet.postgres
        if server is None:
            return _copy(scene.fleet.disk / "sluice.sqlite3", self._file)
        return _ran(server.programs / "pg_dump", "--format=custom", f"--file={self._file}", server.url)

    def _load(self, scene: Scene) -> bool:
        server = scene.fleet.postgres
        if server is None:
            return _copy(self._file, scene.fleet.disk / "sluice.sqlite3")
        options = ("--clean", "--if-exists", "--single-transaction", f"--dbname={server.url}")
        return _ran(server.programs / "pg_restore", *options, str(self._file))


def _copy(source: Path, target: Path) -> bool:
    """SQLite's own backup, page by page under its locks."""
    try:
        with _opened(source) as old, _opened(target) as new:
            old.backup(new)
    except sqlite3.Error:
        return False
    return True


def _opened(file: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(file, timeout=30))


def _ran(program: Path, *arguments: str) -> bool:
    """Run a client program of PostgreSQL; its failures are those of a server that is away."""
    return subprocess.run([str(program), *arguments], check=False, capture_output=True).returncode == 0


FAULTS: Mapping[str, type[Fault]] = {
    "restart database": RestartDatabase,
    "foreign lock": ForeignLock,
    "database disk full": FullDatabaseDisk,
    "restore backup": RestoreBackup,
}
