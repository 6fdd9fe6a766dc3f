"""How commands speak: tables for people, JSON for programs, one line for a log."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from queuemgr.controls import By


def console(stream: Any) -> Console:
    """A console on a command's own stream; in a pipe or file, plain text that is not folded."""
    wide = None if stream.isatty() else 200
    return Console(file=stream, width=wide, highlight=False, soft_wrap=False)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    made = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*("" if value is None else str(value) for value in row))
    return made


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def by_command(reason: str = "") -> By:
    """Whoever runs this command, as changes are recorded."""
    return By(getpass.getuser(), "command", reason)
