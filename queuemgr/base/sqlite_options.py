"""SQLite for a queue: a write-ahead log, and a write lock from the first statement of a transaction.

With SQLite's own defaults, readers and writers lock each other out, and a transaction that reads before it
writes fails at once where another writes meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from queuemgr.base.queue_database import connection, vendor

PRAGMAS = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-20000; PRAGMA temp_store=MEMORY;"
)
OPTIONS: dict[str, Any] = {"timeout": 30, "transaction_mode": "IMMEDIATE", "init_command": PRAGMAS}


def complete_options() -> None:
    """Give our connection the options that its project's settings do not state."""
    if vendor() == "sqlite":
        complete(connection.settings_dict["OPTIONS"])


def complete(options: dict[str, Any]) -> None:
    """Add what these options leave out; what they state is left, for the system checks to judge."""
    options.update({name: value for name, value in OPTIONS.items() if name not in options})
    if not journal_mode(options):
        options["init_command"] = f"{PRAGMAS} {options['init_command'] or ''}".rstrip()


def journal_mode(options: Mapping[str, Any]) -> str:
    """The journal mode that they state last, in small letters; empty if they state none."""
    stated = re.findall(r"journal_mode\s*[=(]\s*['\"]?(\w+)", str(options.get("init_command") or ""), re.I)
    return stated[-1].lower() if stated else ""
