"""The private servers of tests, benchmarks and proofs let nobody in who cannot read our files."""

from __future__ import annotations

import psycopg
import pytest
from redis import AuthenticationError, Redis

from tests.private_servers import POSTGRES, REDIS

pytestmark = pytest.mark.only_on("postgres", why="a file has no server")


@pytest.mark.parametrize("user", ["sluice", "postgres", "nobody", "root"])
@pytest.mark.parametrize("password", [None, "", "sluice", "postgres"])
def test_nobody_gets_into_the_private_database_without_its_password(user: str, password: str | None) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(host="127.0.0.1", port=POSTGRES.port, user=user, password=password, dbname="postgres")


def test_no_rule_of_the_private_database_trusts_anybody() -> None:
    with psycopg.connect(POSTGRES.url) as session:
        methods = session.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules").fetchall()
    assert methods == [("scram-sha-256",)]


def test_its_password_is_in_no_file_that_others_may_read() -> None:
    beside = POSTGRES.directory.parent.iterdir()
    readable = [file for file in beside if file.is_file() and file.stat().st_mode & 0o077]
    assert all(POSTGRES.password not in file.read_text(errors="replace") for file in readable)
    assert POSTGRES.directory.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("password", [None, "sluice"])
def test_nobody_gets_into_the_private_broker_without_its_password(password: str | None) -> None:
    with Redis(port=REDIS.port, password=password) as client, pytest.raises(AuthenticationError):
        client.ping()
