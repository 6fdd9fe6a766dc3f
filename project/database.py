"""Django's `DATABASES` entry, of the settings of an installation."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dj_database_url

from queuemgr.base.db_connection import reset_session
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.redaction import register_secret

RIGHT = "postgres://user:password@host:5432/name"

POOL_WAIT = 5.0
"""Seconds to wait for a connection before the database counts as away."""


def database(
    url: str, data_dir: Path, *, transaction_pooling: bool, process: str, password: str = ""
) -> dict[str, Any]:
    """The database a URL names; without one SQLite in the data directory. `process` is what the server shows
    as the name of its sessions, `password` is for a URL without one. Raises `ConfigurationError` for a URL
    that names no database of ours."""
    if not url:
        return sqlite(data_dir / "sluice.sqlite3")
    try:
        config: dict[str, Any] = {**dj_database_url.parse(url)}
    except ValueError:
        raise ConfigurationError("DATABASE_URL cannot be read; right is " + RIGHT) from None
    if config["ENGINE"].endswith("sqlite3"):
        return sqlite(Path(str(config["NAME"])))
    if not config["ENGINE"].endswith("postgresql"):
        raise ConfigurationError("DATABASE_URL must name PostgreSQL or SQLite")
    if "@" in url and not config["USER"]:
        raise ConfigurationError("DATABASE_URL cannot be read: write / ? # of its password as %2F %3F %23")
    if not config["NAME"]:
        raise ConfigurationError("DATABASE_URL names no database; right is " + RIGHT)
    if not all(map(importlib.util.find_spec, ("psycopg", "psycopg_pool"))):
        raise ConfigurationError(
            "DATABASE_URL names PostgreSQL, whose driver is missing: pip install 'sluicegate[postgres]'"
        )
    config["PASSWORD"] = config["PASSWORD"] or password
    register_secret(config["PASSWORD"])
    return postgres(config, transaction_pooling=transaction_pooling, process=process)


def postgres(config: dict[str, Any], *, transaction_pooling: bool, process: str) -> dict[str, Any]:
    """PostgreSQL, directly or through a pooler: nothing is sent at the start that PgBouncer refuses.

    A pooler in transaction mode gives each transaction another session: there nothing may outlive a
    transaction, neither prepared statements nor cursors, and a session's state is not ours to reset.

    Every transaction says that it reads what is committed, whatever the server, the role or the database has
    as its default: at a higher level the work of others would undo ours.
    """
    from psycopg import IsolationLevel

    options = config.get("OPTIONS", {})
    pool: dict[str, Any] = {"min_size": 1, "max_size": 32, "timeout": POOL_WAIT, "max_idle": 60}
    if not transaction_pooling:
        pool["reset"] = partial(reset_session, role=options.get("assume_role") or "")
    defaults = {
        "server_side_binding": True,
        "prepare_threshold": None if transaction_pooling else 3,
        "pool": pool,
        "application_name": process,
        "isolation_level": IsolationLevel.READ_COMMITTED,
    }
    return {
        **config,
        "OPTIONS": {**defaults, **options},
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": transaction_pooling,
    }


def sqlite(path: Path) -> dict[str, Any]:
    """The queue completes its options."""
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path)}


CELERY_COMMANDS = ("worker", "beat", "flower")
WEB_SERVERS = ("gunicorn", "uvicorn", "hypercorn", "granian", "waitress-serve", "runserver")


def process_name(argv: Sequence[str]) -> str:
    """What a process started with this command line is called on the server: `sluicegate worker`."""
    program, rest = Path(argv[0]).name if argv else "", list(argv[1:])
    words = [program, *rest]
    if program in ("celery", "__main__.py"):
        kinds = [word for word in rest if word in CELERY_COMMANDS]
    elif any(word in WEB_SERVERS for word in words[:2]):
        kinds = ["web"]
    else:
        kinds = [word for word in rest[:1] if re.fullmatch(r"[a-z_]{1,30}", word)]
    return " ".join(["sluicegate", *kinds[:1]])
