"""A pytest plugin that starts the tests' own broker and database before Django reads its settings.

`SLUICE_TEST_DATABASE=postgres` (or `sqlite`, the default) says which database this run is for;
`make test` does both. Everything lives in a temporary directory and is gone afterwards.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from queuemgr.local.private_servers import PostgresServer, RedisServer, wait_for_port

DATABASE = os.environ.get("SLUICE_TEST_DATABASE", "sqlite")
MODEL_EXAMPLES = int(os.environ.get("SLUICE_MODEL_EXAMPLES", "8"))
"""Histories the model of the fleet plays, and a sixth of the snapshots decided; a proof has more."""

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
if "SLUICE_MODEL_EXAMPLES" not in os.environ:
    settings.load_profile("repeatable")  # new examples are looked for by `make proof`

KEPT = ("SLUICE_TEST_DATABASE", "SLUICE_TEST_PATIENCE", "SLUICE_TEST_CORPUS", "SLUICE_CORPUS")
"""Ours, of all that the environment says; what else is set there must not reach a test."""

ROOT = Path(tempfile.mkdtemp(prefix="sluice-test-"))
ROOT.chmod(0o755)

for name in [name for name in os.environ if name.startswith("SLUICE_")]:
    if name not in KEPT:
        del os.environ[name]

REDIS = RedisServer(ROOT / "redis")
POSTGRES = PostgresServer(ROOT / "postgres")
_redis = subprocess.Popen(REDIS.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
os.environ["SLUICE_DATA_DIR"] = str(ROOT / "data")
os.environ["BROKER_URL"] = REDIS.url
os.environ.pop("DATABASE_URL", None)
if DATABASE == "postgres":
    POSTGRES.start()
    os.environ["DATABASE_URL"] = POSTGRES.url


@atexit.register
def _stop() -> None:
    _redis.kill()
    _redis.wait()
    POSTGRES.stop()
    shutil.rmtree(ROOT, ignore_errors=True)


wait_for_port(REDIS.port, _redis)


def pytest_report_header() -> str:
    return f"database: {DATABASE}"


@pytest.fixture(scope="session")
def database() -> str:
    """Which database this run is for: sqlite or postgres."""
    return DATABASE
