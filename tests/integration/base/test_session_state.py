"""What an application sets on a database session ends when it gives the session back."""

from __future__ import annotations

import pytest
from django.db import connection

from queuemgr.base import sql

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
