"""Printing tables, and the actor to record for what a command changes."""

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
    """A console on a command's output stream; in a pipe or file, plain text without line wrapping."""
    wide = None if stream.isatty() else 10_000
    return Console(file=stream, width=wide, highlight=False, soft_wrap=False)


def show(stream: Any, what: Any) -> None:
    """Print to a command's output stream, without trailing blanks."""
    if stream.isatty():
        console(stream).print(what)
        return
    text = StringIO()
    console(text).print(what)
    stream.write("\n".join(line.rstrip() for line in text.getvalue().splitlines()))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    printed = Table(
        title=title, title_justify="left", box=None, header_style="bold", pad_edge=False,
        show_header=any(columns),
    )  # fmt: skip
    for column in columns:
        printed.add_column(column, overflow="fold")
    for row in rows:
        printed.add_row(*(Text("" if value is None else safe_text(str(value))) for value in row))
    return printed


def by_command(reason: str = "") -> Actor:
    """The operating system's user who runs this command, for the audit log."""
    return Actor(getpass.getuser(), "command", reason)
