"""Argument types, and arguments that several commands share."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from queuemgr.base.column_sizes import MAX_ID, MAX_INTEGER
from queuemgr.base.errors import BadInput
from queuemgr.base.written_times import FORMAT, moment
from queuemgr.cli.subcommands import Argument, option
from queuemgr.flows.flow import PRIORITIES

TIME_FORMAT = f"as {FORMAT}"

KEY = option("key", help="the execution's key")
FLOW_OF_KEY = option("--flow", help="its flow, if several flows have the key")
ONLY_FLOW = option("--flow", help="only this flow")
NEW_FLOW = option("--flow", help="which flow (default SLUICE_DEFAULT_FLOW, else the only one)")
PRIORITY = option("--priority", default="normal", choices=PRIORITIES, help="default normal")
REASON = option("--reason", default="", help="reason (recorded in the audit log)")
JSON_LINES = option("--json", action="store_true", help="JSON Lines, stable names")
JSON_OBJECT = option("--json", action="store_true", help="one JSON object, stable names")


TERMINAL_SECONDS = 2.0
"""Default interval between updates on a terminal."""


def interval(default: float) -> Argument:
    """`--interval SECONDS`, for commands with `--watch`."""
    about = f"with --watch: seconds between updates (default {default:g})"
    return option("--interval", type=above_zero, default=default, metavar="SECONDS", help=about)


def above_zero(text: str) -> float:
    """An argparse type: a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and below a million")
    return number


def positive(text: str) -> int:
    """An argparse type: a whole number of at least 1."""
    return _integer(text, 1)


def natural(text: str) -> int:
    """An argparse type: a whole number of at least 0."""
    return _integer(text, 0)


def row_id(text: str) -> int:
    """An argparse type: the number of a row."""
    return _integer(text, 1, MAX_ID)


def port(text: str) -> int:
    """An argparse type: a port, or 0 for a free one."""
    return _integer(text, 0, 65_535)


def _integer(text: str, minimum: int, most: int = MAX_INTEGER) -> int:
    number = int(text) if text.isdecimal() and len(text) < 20 else -1
    if number > most:
        raise argparse.ArgumentTypeError(f"{text!r} is more than {most}")
    if number < minimum:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {minimum}")
    return number


def past(text: str) -> datetime:
    """An argparse type: a time; `2h` is two hours ago."""
    return _moment(text, is_ahead=False)


def ahead(text: str) -> datetime:
    """An argparse type: a time; `2h` is in two hours."""
    return _moment(text, is_ahead=True)


def _moment(text: str, *, is_ahead: bool) -> datetime:
    try:
        return moment(text, datetime.now(UTC), ahead=is_ahead)
    except BadInput as error:
        raise argparse.ArgumentTypeError(str(error)) from None
