"""What an application sets on a database session ends when it gives the session back."""

from __future__ import annotations

import pytest
from django.db import InterfaceError, connection, transaction

from project import database
from queuemgr.base import db_connection, sql
from queuemgr.base.unreachable import connect_directly

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.only_on("postgres", why="SQLite has no sessions"),
]

LEFT_BEHIND = {
    "a statement timeout": ("SET statement_timeout = 1", "SHOW statement_timeout", "0"),
    "a lock timeout": ("SET lock_timeout = 1", "SHOW lock_timeout", "0"),
    "a search path": ("SET search_path = nowhere", "SHOW search_path", '"$user", public'),
    "read only": ("SET default_transaction_read_only = on", "SHOW default_transaction_read_only", "off"),
    "an isolation": (
        "SET default_transaction_isolation = 'serializable'",
        "SHOW default_transaction_isolation",
        "read committed",
    ),
    "a time zone": ("SET TIME ZONE 'Asia/Tokyo'", "SHOW TimeZone", "UTC"),
    "a role": ("SET ROLE pg_monitor", "SELECT current_user = session_user", True),
    "a name": ("SET application_name = 'theirs'", "SHOW application_name", "sluicegate"),
    "a lock": (
        "SELECT pg_advisory_lock(4711)",
        "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
        0,
    ),
    "a cursor": (
        "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
        "SELECT COUNT(*) FROM pg_cursors WHERE name = 'c'",
        0,
    ),
    "a listener": ("LISTEN theirs", "SELECT COUNT(*) FROM pg_listening_channels()", 0),
    "a temporary table": (
        "CREATE TEMPORARY TABLE queuemgr_lease (id integer)",
        "SELECT COUNT(*) FROM pg_class WHERE relpersistence = 't' AND relname = 'queuemgr_lease'",
        0,
    ),
}


def session() -> int:
    return sql.value("SELECT pg_backend_pid()")


@pytest.mark.parametrize("what", LEFT_BEHIND)
def test_the_next_user_of_a_session_finds_nothing_the_last_one_set(what: str) -> None:
    statement, question, right = LEFT_BEHIND[what]
    before = session()
    sql.run(statement)
    connection.close()
    for _ in range(200):  # the pool hands sessions out in turn
        if session() == before:
            break
        connection.close()
    assert session() == before, "the session was kept, and not replaced"
    assert sql.value(question) == right


def test_the_role_that_the_settings_assume_is_there_for_the_next_user_of_a_session() -> None:
    sql.run("SET ROLE pg_monitor")
    assert connection.connection is not None
    db_connection.reset_session(connection.connection, role="pg_read_all_stats")
    assert sql.value("SELECT current_user") == "pg_read_all_stats"
    with pytest.raises(InterfaceError, match="no_such_role"):
        db_connection.reset_session(connection.connection, role="no_such_role")


def test_a_pool_resets_its_sessions_to_the_role_of_the_settings() -> None:
    config = {"OPTIONS": {"assume_role": "owner"}}
    settings = database.postgres(config, transaction_pooling=False, process="x")
    assert settings["OPTIONS"]["pool"]["reset"].keywords == {"role": "owner"}


DEFAULTS = ["read uncommitted", "repeatable read", "serializable"]


@pytest.mark.parametrize("default", DEFAULTS)
def test_every_transaction_reads_what_is_committed_whatever_the_default_of_the_database_is(
    default: str,
) -> None:
    """A new session has that default; the next user of it has not, nor has any transaction."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    sql.run(f"ALTER DATABASE {name} SET default_transaction_isolation = '{default}'")
    try:
        with connect_directly() as session:
            new = session.execute("SHOW default_transaction_isolation").fetchone()
            db_connection.reset_session(session)
            used = session.execute("SHOW default_transaction_isolation").fetchone()
    finally:
        sql.run(f"ALTER DATABASE {name} RESET default_transaction_isolation")
    assert (new, used) == ((default,), ("read committed",))
    sql.run(f"SET default_transaction_isolation = '{default}'")
    with transaction.atomic():
        assert sql.value("SHOW transaction_isolation") == "read committed"
