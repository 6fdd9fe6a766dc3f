"""What hostile code does to its process, its connection and its machine."""

from __future__ import annotations

import gc
import locale
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

LINGERS = 4.0
"""Seconds a child of hostile code stays."""

MEMORY = 192 * 2**20
"""Bytes taken before the process is killed for it, as the kernel does where memory is out: bounded, so that
the machine of the proof has some left."""


def _take_memory() -> None:
    taken = bytearray(MEMORY)
    taken[:: 2**12] = b"x" * len(taken[:: 2**12])
    os.kill(os.getpid(), signal.SIGKILL)


def _fork(child: Callable[[], object]) -> None:
    """Fork, and let the child do this; it never returns unless `child` wants it to."""
    if os.fork() == 0:
        child()


def _linger() -> None:
    time.sleep(LINGERS)
    os._exit(0)


def _close_connection() -> None:
    from django.db import connection

    connection.ensure_connection()
    connection.close()


def _leave_transaction(*statements: str) -> None:
    from django.db import DatabaseError, connection, transaction

    transaction.atomic().__enter__()
    with connection.cursor() as cursor, suppress(DatabaseError):
        for statement in statements:
            cursor.execute(statement)


def _leave_autocommit_off() -> None:
    from django.db import connection

    connection.set_autocommit(False)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _leave_cursor() -> None:
    from django.db import connection

    cursor = connection.cursor()
    cursor.execute("SELECT 1 UNION ALL SELECT 2")


def _leave_lock() -> None:
    from django.db import connection

    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(4711)")
            cursor.execute("SELECT pg_advisory_unlock(4711), pg_advisory_lock_shared(4712)")


def _set_time_zone() -> None:
    os.environ["TZ"] = "Pacific/Kiritimati"
    time.tzset()


def _set_locale() -> None:
    with suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "C.UTF-8")
    with suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "")


def _ignore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        with suppress(ValueError):  # not in this thread
            signal.signal(number, signal.SIG_IGN)


def _disable_logging() -> None:
    logging.disable(logging.CRITICAL)
    logging.getLogger().handlers.clear()


class RaisingFilter(logging.Filter):
    """Raises for some records, and lets the others be."""

    left = 5

    def filter(self, record: logging.LogRecord) -> bool:
        self.left -= 1
        if self.left >= 0:
            raise RuntimeError("a filter of the code's own")
        return True


def _break_logging() -> None:
    for handler in logging.getLogger().handlers:
        handler.addFilter(RaisingFilter())


def _close_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.close()


def _ignore_errors() -> None:
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


def _spin() -> None:
    while True:
        pass


ONCE: Mapping[str, Callable[[], Any]] = {
    "exits at once": lambda: os._exit(1),
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "aborts": os.abort,
    "takes memory until killed": _take_memory,
}


def _set_alarm() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.05)


def _block_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


MISDEEDS: Mapping[str, Callable[[], Any]] = {
    **ONCE,
    "always exits": lambda: os._exit(1),
    "closes the connection": _close_connection,
    "leaves a transaction open": _leave_transaction,
    "leaves a failed transaction": lambda: _leave_transaction("SELECT * FROM no_such_table"),
    "leaves autocommit off": _leave_autocommit_off,
    "leaves a cursor open": _leave_cursor,
    "leaves a lock": _leave_lock,
    "sets the time zone": _set_time_zone,
    "sets the locale": _set_locale,
    "ignores signals": _ignore_signals,
    "disables logging": _disable_logging,
    "breaks logging": _break_logging,
    "sets an alarm": _set_alarm,
    "sends itself a signal": lambda: os.kill(os.getpid(), signal.SIGUSR2),
    "blocks signals": _block_signals,
    "closes its output": _close_output,
    "changes its directory": lambda: os.chdir("/"),
    "collects no garbage": lambda: gc.disable(),
    "seeds random": lambda: random.seed(0),
    "sets a socket timeout": lambda: socket.setdefaulttimeout(0.05),
    "forks and exits": lambda: _fork(lambda: os._exit(0)),
    "forks and lingers": lambda: _fork(_linger),
    "forks and returns": lambda: _fork(lambda: None),
    "leaves a thread": lambda: threading.Thread(target=time.sleep, args=(LINGERS,)).start(),
    "leaves a program": lambda: _leave_program(),
    "sleeps for ever": lambda: time.sleep(600),
    "sleeps and ignores errors": _ignore_errors,
    "spins": _spin,
}


def _leave_program() -> None:
    subprocess.Popen(["sleep", str(LINGERS)], start_new_session=True)
