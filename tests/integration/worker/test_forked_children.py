"""A pool's children are forked from a process that has database connections."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from celery import current_app as celery_app
from celery.fixups.django import DjangoWorkerFixup
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


def test_celery_closes_no_pool_of_connections_under_the_threads_that_use_it() -> None:
    """Its receivers of signals close it before and after each task of a child."""
    child = os.fork()
    if not child:
        os._exit(_exit_code(_use_its_pool))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _use_its_pool() -> None:
    registration.keep_pools_open()
    connection.ensure_connection()
    used = connection.pool
    fixup = DjangoWorkerFixup(celery_app)
    fixup.worker = SimpleNamespace(pool_cls="prefork")
    fixup.close_database()
    assert not used.closed, "by Celery"
    assert connection.pool is used
    assert sql.value("SELECT 1") == 1


def _exit_code(run: Callable[[], None]) -> int:
    try:
        run()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _servers_processes() -> set[int]:
    """PostgreSQL's processes that serve connections to this database."""
    statement = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    return set(sql.column(statement))
