"""What is drawn on a terminal, by rich. Only commands that draw import this: it takes long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich import table
from rich.console import Console, Group
from rich.text import Text

from queuemgr.cli.output import Table


def console(stream: Any) -> Console:
    """A console on a command's output stream; in a pipe or file, plain text without line wrapping."""
    wide, plain = None if stream.isatty() else 10_000, getattr(stream, "plain", stream)
    return Console(file=plain, width=wide, highlight=False, soft_wrap=False)


def draw(stream: Any, what: Iterable[Table | str]) -> None:
    console(stream).print(drawing(what))


def drawing(what: Iterable[Table | str]) -> Group:
    """Tables and lines, to be drawn below each other."""
    return Group(*(Text(part) if isinstance(part, str) else _drawn(part) for part in what))


def _drawn(shown: Table) -> table.Table:
    drawn = table.Table(
        title=shown.title, title_justify="left", box=None, header_style="bold", pad_edge=False,
        show_header=any(shown.columns),
    )  # fmt: skip
    for column in shown.columns:
        drawn.add_column(column, overflow="fold")
    for row in shown.rows:
        drawn.add_row(*map(Text, row))
    return drawn
