"""A process frozen in the middle of a transaction does not block the others for good."""

from __future__ import annotations

import time

import pytest
from django.db import DatabaseError, connections, transaction

from project.settings import FROZEN_SECONDS
from queuemgr.base import scheduler_lock, sql

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.only_on("postgres", why="SQLite has no sessions to end"),
]


def test_a_session_that_leaves_a_transaction_open_for_long_is_ended() -> None:
    assert sql.value("SHOW idle_in_transaction_session_timeout") == f"{FROZEN_SECONDS}s"


def test_the_lock_of_a_process_frozen_while_deciding_is_released_with_its_session() -> None:
    frozen = connections.create_connection("default")
    try:
        with frozen.cursor() as cursor:
            cursor.execute("SET idle_in_transaction_session_timeout = '300ms'")
            cursor.execute("BEGIN")
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [scheduler_lock.SCHEDULER_LOCK])
        with transaction.atomic():
            assert scheduler_lock.try_acquire(milliseconds=10) is None, "it holds the lock"
        time.sleep(0.5)
        with transaction.atomic():
            assert scheduler_lock.try_acquire(milliseconds=5_000)
        with pytest.raises(DatabaseError) as ended, frozen.cursor() as cursor:
            cursor.execute("SELECT 1")
        assert sql.is_away(ended.value), "a worker that resumes gets a new session"
    finally:
        frozen.close()
