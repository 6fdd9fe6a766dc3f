"""A pytest plugin that starts the tests' own broker and database before Django reads its settings.

Each test process has servers of its own, in a temporary directory, and stops them at its end.
`SLUICE_TEST_DATABASE` (`sqlite` or `postgres`) says which database it has. Where that is not set, a process
that is alone has SQLite; of several (`make test`), every other one has PostgreSQL, the first of all.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from queuemgr.local.private_servers import PostgresServer, RedisServer, wait_for_port

DATABASES = ("sqlite", "postgres")
PROCESS = os.environ.get("PYTEST_XDIST_WORKER", "")
"""Which of several test processes this is: `gw0`, `gw1` …; empty for the one that leads them, or that is
alone."""


ONE_FOR_ALL = os.environ.get("SLUICE_TEST_DATABASE", "")
"""The database of every test process of this run; empty where they have different ones."""


def database_of(process: str) -> str:
    """The database of a test process."""
    if ONE_FOR_ALL:
        return ONE_FOR_ALL
    return "postgres" if process and int(process.removeprefix("gw")) % 2 == 0 else "sqlite"


DATABASE = database_of(PROCESS)
MODEL_EXAMPLES = int(os.environ.get("SLUICE_MODEL_EXAMPLES", "4"))
"""Histories the model of the fleet plays, and a sixth of the snapshots decided; a proof has more."""

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
if "SLUICE_MODEL_EXAMPLES" not in os.environ:
    settings.load_profile("repeatable")  # new examples are looked for by `make proof`

KEPT = ("SLUICE_TEST_DATABASE", "SLUICE_TEST_CORPUS", "SLUICE_CORPUS")
"""Ours, of all that the environment says; what else is set there must not reach a test."""

ROOT = Path(tempfile.mkdtemp(prefix="sluice-test-"))
ROOT.chmod(0o755)
REDIS = RedisServer(ROOT / "redis")
QUICK = ("fsync=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0")
"""What a server whose machine never fails can do without: its files end with the tests. One that is killed
still has all that was committed."""
POSTGRES = PostgresServer(ROOT / "postgres", *QUICK)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        if name not in KEPT:
            del os.environ[name]
    os.environ["SLUICE_DATA_DIR"] = str(ROOT / "data")
    os.environ["SLUICE_SEED_INTERVAL"] = "0"  # the schedule is for the tests that are about it
    os.environ["BROKER_URL"] = REDIS.url
    os.environ.pop("DATABASE_URL", None)
    # A shell's background job ignores Ctrl-C, and so would every program a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if PROCESS or not getattr(early_config.known_args_namespace, "numprocesses", None):
        _start()
    yield


_redis: list[subprocess.Popen[Any]] = []


def _start() -> None:
    if DATABASE == "postgres":
        POSTGRES.start()
        os.environ["DATABASE_URL"] = POSTGRES.url
    quiet = subprocess.DEVNULL
    _redis.append(subprocess.Popen(REDIS.command, stdout=quiet, stderr=quiet))
    wait_for_port(REDIS.port, _redis[0])


@atexit.register
def stop() -> None:
    for process in _redis:
        process.kill()
        process.wait()
    POSTGRES.stop()
    shutil.rmtree(ROOT, ignore_errors=True)


def pytest_report_header() -> str:
    return f"database: {DATABASE}"


@pytest.fixture(scope="session")
def database() -> str:
    """Which database this run is for: sqlite or postgres."""
    return DATABASE
