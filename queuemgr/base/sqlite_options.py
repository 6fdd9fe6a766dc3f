"""SQLite for a queue: a write-ahead log, and a write lock from the first statement of a transaction.

With SQLite's own defaults, readers and writers lock each other out, and a transaction that reads before it
writes fails at once where another writes meanwhile.
"""

from __future__ import annotations

from typing import Any

from django.db import connection

OPTIONS: dict[str, Any] = {
    "timeout": 30,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; "
    "PRAGMA cache_size=-20000; PRAGMA temp_store=MEMORY;",
}


def complete_options() -> None:
    """Give our connection the options that its project's settings do not state."""
    if connection.vendor == "sqlite":
        options = connection.settings_dict["OPTIONS"]
        options.update({name: value for name, value in OPTIONS.items() if name not in options})
