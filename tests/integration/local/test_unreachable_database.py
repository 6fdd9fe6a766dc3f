"""Programs that need the database say why it cannot be reached, in the server's own words, and end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.integration.local.misconfigured_databases import postgres
from tests.private_servers import POSTGRES
from tests.shell import Shell

pytestmark = pytest.mark.only_on("postgres", why="a file has no server to ask")

PROGRAMS = {"queue": (["queue", "stats"], 5), "up": (["up", "--drain"], 3)}
MISTAKES = {
    "name": (
        postgres(name="no_such_database"),
        'FATAL:  database "no_such_database" does not exist: correct the name in DATABASE_URL',
    ),
    "port": (
        "postgres://sluice:topsecret@127.0.0.1:1/postgres",
        "Connection refused: start the server, or correct host and port in DATABASE_URL",
    ),
}


@pytest.mark.parametrize(("program", "mistake"), [("queue", "name"), ("up", "port")])
def test_a_command_says_why_the_database_cannot_be_reached_and_what_to_do(
    program: str, mistake: str, tmp_path: Path, shell: Shell
) -> None:
    (arguments, code), (url, words) = PROGRAMS[program], MISTAKES[mistake]
    done = shell(tmp_path, *arguments, DATABASE_URL=url, BROKER_URL=os.environ["BROKER_URL"])
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr
    assert not any(secret in done.stdout + done.stderr for secret in ("topsecret", POSTGRES.password))


@pytest.mark.parametrize("mistake", ["name", pytest.param("port", marks=pytest.mark.slow_proof)])
def test_a_worker_says_why_the_database_cannot_be_reached_and_ends(
    mistake: str, tmp_path: Path, shell: Shell
) -> None:
    url, words = MISTAKES[mistake]
    broker = os.environ["BROKER_URL"]
    done = shell(tmp_path, "worker", DATABASE_URL=url, BROKER_URL=broker, CELERY_SKIP_CHECKS="1")
    assert (done.returncode, words in done.stderr) == (3, True), done.stderr
    assert "Traceback" not in done.stderr
    assert not any(secret in done.stdout + done.stderr for secret in ("topsecret", POSTGRES.password))
