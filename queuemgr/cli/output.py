"""How commands speak: tables for people, JSON for programs, one line for a log."""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from queuemgr.base.safe_text import safe_text
from queuemgr.operations.controls import Actor


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
        made.add_row(*(Text("" if value is None else safe_text(str(value))) for value in row))
    return made


def by_command(reason: str = "") -> Actor:
    """Whoever runs this command, as changes are recorded."""
    return Actor(getpass.getuser(), "command", reason)
