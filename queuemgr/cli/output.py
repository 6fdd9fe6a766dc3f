"""Printing tables and JSON Lines, and the actor to record for what a command changes."""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from queuemgr.base.safe_text import as_json, safe_text
from queuemgr.base.time_text import moment_text
from queuemgr.operations.controls import COMMAND, Actor


class SafeOutput:
    """A command's output. Keys, reasons and errors are texts of others: none of them controls the terminal
    that shows it. `plain` is for what draws."""

    def __init__(self, plain: Any, *, json: bool = False) -> None:
        self.plain, self.json = plain, json
        self.isatty, self.flush = plain.isatty, plain.flush

    def write(self, text: str = "", **how: Any) -> None:
        self.plain.write(safe_text(text), **how)

    def say(self, text: str, **facts: Any) -> None:
        """What was done: a sentence, or with `--json` these facts as one object."""
        self.write(as_json(facts) if self.json else text)


@dataclass(frozen=True, slots=True)
class Table:
    """Texts in rows. It is drawn by `terminal`, or written as plain text by `plain_text`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def table(title: str, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> Table:
    texts = [["" if value is None else safe_text(str(value)) for value in row] for row in rows]
    return Table(title, columns, texts)


def show(stream: Any, *what: Table | str) -> None:
    """Print tables and lines to a command's output stream, without trailing blanks."""
    if stream.isatty():
        from queuemgr.cli import terminal  # what draws takes long to import

        terminal.draw(stream, what)
    else:
        from queuemgr.cli.plain_text import lines_of

        stream.write("\n".join(line for part in what for line in lines_of(part)))


def show_fields(stream: Any, values: Mapping[str, Any]) -> None:
    """Print fields, one a line, without those that are empty."""
    texts = {n: clock(value) if isinstance(value, datetime) else value for n, value in values.items()}
    rows = [(name.replace("_", " "), text) for name, text in texts.items() if text not in (None, "")]
    show(stream, table("", ["", ""], rows))


def write_json(stream: Any, rows: Iterable[Any]) -> None:
    """Write each as a line of JSON."""
    for row in rows:
        stream.write(as_json(row))


def write_csv(stream: Any, lines: Iterable[str]) -> None:
    """Write lines of CSV, ended as other lines are: a carriage return would be shown as `\\u000d`."""
    for line in lines:
        stream.write(line.removesuffix("\r\n"))


def listing(
    stream: Any, facts: Iterable[Any] | None, columns: Sequence[str], rows: Iterable[Iterable[Any]]
) -> None:
    """A list: these facts as lines of JSON if there are any to be written, else a table."""
    if facts is None:
        show(stream, table("", columns, rows))
    else:
        write_json(stream, facts)


def clock(moment: datetime | None) -> str:
    """As everywhere; empty for None."""
    return moment_text(moment) if moment else ""


def rounds(interval: float) -> Iterator[None]:
    """Yield every `interval` seconds, but pause at least five times as long as the round took."""
    while True:
        began = time.monotonic()
        yield
        time.sleep(max(interval, 5 * (time.monotonic() - began)))


def by_command(reason: str = "") -> Actor:
    """The operating system's user who runs this command, for the audit log."""
    return Actor(getpass.getuser(), COMMAND, reason)
