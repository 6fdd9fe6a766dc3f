"""Threads that a worker cannot do without: they continue after any error, or take the process down with them.

A worker whose leases are no longer renewed, or whose results are no longer stored, is worse than none: it
holds slots and does nothing. Its supervisor starts another.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn

from django.db import Error as DatabaseError

from queuemgr.base import sql
from queuemgr.base.db_connection import one_turn
from queuemgr.base.queue_database import connection
from queuemgr.worker import process_wide

logger = logging.getLogger(__name__)

THREAD_DIED = 70
"""Exit code (EX_SOFTWARE of sysexits.h) of a process in which such a thread ended, or that is damaged."""

STEP_STUCK = 75
"""Exit code (EX_TEMPFAIL) of a process with a step, or a callback of a flow, that did not end in its time."""


def start_vital(name: str, run: Callable[[], object]) -> None:
    """Run this, which never returns, in a thread; the process ends if the thread does."""
    threading.Thread(target=_run, args=(name, run), name=name, daemon=True).start()


def _run(name: str, run: Callable[[], object]) -> None:
    try:
        try:
            run()
        except BaseException:
            process_wide.raise_limits()
            logger.critical(
                "thread %s failed: this process ends (exit code %d)", name, THREAD_DIED, exc_info=True
            )
        else:
            logger.critical("thread %s ended: this process ends (exit code %d)", name, THREAD_DIED)
    finally:
        end_process(THREAD_DIED)


def end_process(code: int) -> NoReturn:
    """End this process whatever its threads do, and whatever flushing its output raises; open transactions
    are rolled back by the server."""
    try:
        logging.shutdown()
        sys.stdout.flush()
    finally:
        _exit(code)


_exit = os._exit


def end_damaged_process(damage: str) -> NoReturn:
    """End a process that cannot do its work any more; its supervisor, or the parent of its pool, starts
    another."""
    try:
        logger.critical("this process is damaged: %s; it ends (exit code %d)", damage, THREAD_DIED)
    finally:
        end_process(THREAD_DIED)


def repeat(name: str, act: Callable[[], float], *, uses_database: bool = True) -> None:
    """Call `act` again and again in such a thread; it returns the seconds until its next turn.

    After an error it is called again in a second: without a database it can only try. While one that uses the
    database is called, no other thread forks this process.
    """
    start_vital(name, lambda: _repeat(name, act, one_turn if uses_database else nullcontext))


RETRY_SECONDS = 1.0


def _repeat(
    name: str, act: Callable[[], float], around: Callable[[], AbstractContextManager[None]] = nullcontext
) -> NoReturn:
    while True:
        with around():
            wait = _turn(name, act)
        time.sleep(wait)


def _turn(name: str, act: Callable[[], float]) -> float:
    try:
        return act()
    except DatabaseError as error:
        logger.warning("%s: %s; trying again", name, sql.trouble(error))
        connection.close()
    except Exception:
        process_wide.raise_limits()
        logger.exception("%s failed; trying again", name)
    return RETRY_SECONDS
