"""A pool's children are forked from a process that has database connections."""

from __future__ import annotations

import os

import pytest
from django.db import connection

from queuemgr.base import sql
from queuemgr.worker import registration

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.only_on("postgres", why="SQLite has no pool of connections"),
]


def test_a_child_that_closes_its_pool_leaves_the_connections_of_its_parent_open() -> None:
    assert registration
    before = _servers_processes()
    connection.close()  # it goes back to the pool, as before a worker forks
    child = os.fork()
    if not child:
        connection.close_pool()
        os._exit(0)
    os.waitpid(child, 0)
    assert _servers_processes() >= before


def _servers_processes() -> set[int]:
    """PostgreSQL's processes that serve connections to this database."""
    statement = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    return set(sql.column(statement))
