"""A backup is restored by the procedure of docs/operate.md, on both databases, and the fleet continues."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from queuemgr.local.private_servers import _postgres_bin
from tests.acceptance.conftest import MakeFleet
from tests.acceptance.databases import PostgresDatabase, SqliteFile
from tests.acceptance.fleet import Fleet
from tests.private_servers import POSTGRES

pytestmark = pytest.mark.slow_proof
Restore = Callable[[], None]


def take_backup(fleet: Fleet) -> Restore:
    """Take one; what is returned restores it."""
    if isinstance(fleet.database, SqliteFile):
        return _of_file(fleet.database.path, fleet.directory / "backup.sqlite3")
    assert isinstance(fleet.database, PostgresDatabase)
    return _of_server(fleet.database.name, fleet.directory / "backup.dump")


def _of_file(path: Path, backup: Path) -> Restore:
    """`sqlite3 … ".backup …"`, and `.restore`."""
    with closing(sqlite3.connect(path)) as live, closing(sqlite3.connect(backup)) as copy:
        live.backup(copy)

    def restore() -> None:
        with closing(sqlite3.connect(backup)) as copy, closing(sqlite3.connect(path, timeout=60)) as live:
            copy.backup(live)

    return restore


def _of_server(name: str, backup: Path) -> Restore:
    def run(program: str, *arguments: str) -> None:
        command = [str(_postgres_bin(POSTGRES.directory.parent) / program), *arguments]
        address = {"PGHOST": "127.0.0.1", "PGPORT": str(POSTGRES.port), "PGUSER": "sluice"}
        address["PGPASSWORD"] = POSTGRES.password
        subprocess.run(command, check=True, env={**os.environ, **address}, capture_output=True, timeout=120)

    run("pg_dump", "--format=custom", f"--file={backup}", name)
    return lambda: run(
        "pg_restore", "--clean", "--if-exists", "--single-transaction", f"--dbname={name}", str(backup)
    )


@pytest.mark.parametrize("moment", ["running", "stopped"])
def test_after_a_restore_every_execution_waits_under_its_own_limits_and_all_work_ends(
    moment: str, make_fleet: MakeFleet
) -> None:
    """Under running processes, and with all of them stopped; routes have other ids than the console knows."""
    fleet = make_fleet(lease_seconds=4, max_wrap=1)
    fleet.tolerate("")
    fleet.enqueue(6, seconds=0.2, key_prefix="before")
    restore = take_backup(fleet)
    fleet.enqueue(3, seconds=0.2, key_prefix="between-wrap", phase="wrap")
    worker = fleet.start_worker(4)
    fleet.wait_until("under way", lambda: fleet.states()["done"] >= 2)
    if moment == "stopped":
        worker.stop()
    restore()
    if moment == "stopped":
        worker = fleet.start_worker(4, name="next")
    for phase in ("expensive", "wrap", "prep"):
        options = {"key_prefix": f"after-{phase}", "phase": phase, "trace": fleet.trace_file}
        fleet.enqueue(3, seconds=0.2, **options)
    fleet.wait_until_done(9, "after-%")
    fleet.wait_until_done(6, "before-%")
    assert worker.alive
    assert fleet.states("between-%") == {}
    assert fleet.trace().where(phase="wrap").passed(1) == [], "it waited under the limit of its own phase"
