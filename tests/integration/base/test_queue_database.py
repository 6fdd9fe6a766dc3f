"""`SLUICE_DATABASE`: the queue in another database than the project's, of the same or of another kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from tests.compose_file import ROOT
from tests.private_servers import POSTGRES

pytestmark = pytest.mark.only_on("postgres", why="its server holds one of the two databases")


@pytest.fixture
def server() -> Iterator[dict[str, Any]]:
    """A new database of the server."""
    name, url = f"elsewhere_{uuid4().hex[:8]}", urlsplit(POSTGRES.url)
    with psycopg.connect(POSTGRES.url, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}")
        yield {
            "ENGINE": "django.db.backends.postgresql", "NAME": name, "HOST": url.hostname, "PORT": url.port,
            "USER": url.username, "PASSWORD": POSTGRES.password,
        }  # fmt: skip
        session.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def file(tmp_path: Path) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "one.sqlite3")}


@pytest.fixture
def other_file(tmp_path: Path) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "two.sqlite3")}


@pytest.mark.parametrize(
    ("default", "queue"),
    [
        ("file", "server"),
        ("server", "file"),
        pytest.param("file", "other_file", marks=pytest.mark.slow_proof),
    ],
)
def test_tables_locks_and_transactions_are_those_of_the_alias_the_setting_names(
    request: pytest.FixtureRequest, default: str, queue: str
) -> None:
    databases = {"default": request.getfixturevalue(default), "queue": request.getfixturevalue(queue)}
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.queue_elsewhere", json.dumps(databases)],
        cwd=ROOT, capture_output=True, text=True, env={**inherited, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["tables"] == {"default": ["auth", "django"], "queue": ["django", "queuemgr"]}
    assert found["messages"] == ["queuemgr.W043"], "its task is declared by a script"
    assert found["joins"] == {
        f"{alias} {end} {name}": 0 if (alias, end) == ("queue", "rolled back") else count
        for alias in ("default", "queue")
        for end in ("kept", "rolled back")
        for name, count in (("call", 1), ("calls", 2), ("item", 1))
    }
    assert found["in a TestCase"] == []
    assert found["owner"] == "ann"
