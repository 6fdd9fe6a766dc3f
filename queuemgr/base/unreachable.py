"""Why a database cannot be reached, in the server's own words, with the remedy.

A pool only says that it got no connection in time. One direct attempt says why.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from django.db import Error as DatabaseError

from queuemgr.base.queue_database import connection
from queuemgr.base.redaction import without_secrets
from queuemgr.base.setting_names import as_named_here

ATTEMPT_SECONDS = 2
"""How long the direct attempt may take."""


class Problem(NamedTuple):
    """What is wrong, and what to do about it."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


def why_away(error: BaseException) -> Problem:
    """Why the database failed with this error: the server's words where a direct connection is refused, else
    the error's own."""
    if not _is_pool_timeout(error):
        return _problem(str(error))
    try:
        connect_directly().close()
    except DatabaseError as refusal:
        return _problem(str(refusal))
    return Problem("every connection of this process is in use", POOL_REMEDY)


def connect_directly() -> Any:
    """A connection of psycopg of its own, outside the pool, in autocommit; raises `DatabaseError`."""
    import psycopg

    parameters = connection.get_connection_params()
    parameters["connect_timeout"] = ATTEMPT_SECONDS
    with connection.wrap_database_errors:
        return psycopg.connect(**parameters, autocommit=True)


def _is_pool_timeout(error: BaseException) -> bool:
    cause = error.__cause__ or error
    return type(cause).__name__ in ("PoolTimeout", "TooManyRequests") and connection.vendor == "postgresql"


def _problem(message: str) -> Problem:
    words = _in_one_line(message)
    known = (remedy for pattern, remedy in REMEDIES.items() if re.search(pattern, words))
    return Problem(words, as_named_here(next(known, SEE)))


def _in_one_line(message: str) -> str:
    """The message without secrets, psycopg's preambles and libpq's questions."""
    lines = [line.strip() for line in without_secrets(message).strip().splitlines()]
    line = next((line for line in reversed(lines) if "FATAL:" in line), lines[0] if lines else "no answer")
    return line.removeprefix("connection failed: ")


POOL_REMEDY = "raise max_size of the pool in OPTIONS of DATABASES, or run fewer slots in one process"
SEE = "see docs/doctor.md"
RAISE = "raise or unset, of the role, the database or the server,"
REMEDIES = {
    "scheduler lock was busy": "try again; `manage.py doctor` names a session that keeps it",
    "password authentication|no password|SASL": "correct the user or the password in DATABASE_URL",
    "too many (clients|connections)|connection slots|no more connections": (
        "raise max_connections, put a pooler in front (docs/services.md), or run fewer processes"
    ),
    "permission denied for (table|sequence|relation|schema)": (
        "let it write: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public, and USAGE ON ALL "
        "SEQUENCES, to the user in DATABASE_URL"
    ),
    "idle.in.transaction": f"{RAISE} idle_in_transaction_session_timeout: transactions need seconds",
    "lock timeout": f"{RAISE} lock_timeout: the queue sets its own where it waits for a lock",
    "statement timeout": f"{RAISE} statement_timeout: the queue's longest statements take seconds",
    "role |no such user": "correct the user in DATABASE_URL, or create it: CREATE ROLE … LOGIN",
    "pg_hba.conf": "let this host and user in: a line in the server's pg_hba.conf",
    "unsupported startup parameter": (
        "take it out of DATABASE_URL, or add it to ignore_startup_parameters of PgBouncer"
    ),
    "no such database": "correct the name in DATABASE_URL, or add it to [databases] of PgBouncer",
    "certificate|SSL|TLS|sslmode": (
        "correct sslmode and sslrootcert in DATABASE_URL (?sslmode=require), or turn TLS on at the server"
    ),
    "permission denied for database": "let it in: GRANT CONNECT ON DATABASE …",
    "starting up|shutting down|recovery mode": "wait: it answers when that is done",
    "failed to resolve|could not translate": "correct the host in DATABASE_URL",
    "refused|timeout expired|No route|unreachable|closed the connection": (
        "start the server, or correct host and port in DATABASE_URL"
    ),
    "invalid connection option|invalid port|invalid integer": "correct DATABASE_URL",
    "no such table|no such column|relation |column ": "run `manage.py migrate`",
    "does not exist": "correct the name in DATABASE_URL, or create it: CREATE DATABASE …",
    "read-?only": "use a database that may be written: no standby, and not default_transaction_read_only=on",
    "unable to open database file": "correct the path in DATABASE_URL, or make its directory",
    "not a database|malformed": "it is no SQLite file, or damaged: restore a backup (docs/operate.md)",
    "disk is full|No space left|disk I/O": "free some space",
}
"""What to do when a server, a pooler or libpq says this (a pattern); the first that fits counts."""
