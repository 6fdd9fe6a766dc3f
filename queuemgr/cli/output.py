"""How commands speak: tables for people, JSON for programs, one line for a log."""

from __future__ import annotations

import getpass
import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from queuemgr.controls import By


def console(stream: Any) -> Console:
    """A console on a command's own stream; in a pipe or file, plain text that is not folded."""
    wide = None if stream.isatty() else 10_000
    return Console(file=stream, width=wide, highlight=False, soft_wrap=False)


def show(stream: Any, what: Any) -> None:
    """Print something on a command's own stream, without the blanks that pad its lines."""
    if stream.isatty():
        console(stream).print(what)
        return
    drawn = StringIO()
    console(drawn).print(what)
    stream.write("\n".join(line.rstrip() for line in drawn.getvalue().splitlines()))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    made = Table(
        title=title, title_justify="left", box=None, header_style="bold", pad_edge=False,
        show_header=any(columns),
    )  # fmt: skip
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(Text("" if value is None else plain(str(value))) for value in row))
    return made


def plain(text: str) -> str:
    """Text as it can be put on a terminal: what would steer it is shown by its code."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_UNPRINTED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What steers a terminal, turns text round, ends a line for some readers, or is no character alone."""


_CONTROLS = re.compile(f"[\x00-\x08\x0b-\x1f]|{_UNPRINTED.pattern}")


def as_json(value: Any) -> str:
    """One line of JSON for any reader and any terminal, moments as ISO 8601 in UTC."""
    line = json.dumps(value, ensure_ascii=False, default=_plain)
    return _UNPRINTED.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return str(value)


def by_command(reason: str = "") -> By:
    """Whoever runs this command, as changes are recorded."""
    return By(getpass.getuser(), "command", reason)
