"""Argument types and options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

TIME_FORMAT = "format: 2026-11-28 06:00, in UTC unless it has an offset"


class Action(NamedTuple):
    """One action of a command that has several, such as `open` of `queue batch`."""

    summary: str
    run: Callable[[dict[str, Any], Any], int]
    add_options: Callable[[Any], None]


def action_parsers(
    parser: Any, command: str, actions: Mapping[str, Action], examples: str
) -> Iterator[tuple[str, Any]]:
    """Add a parser per action, with the lines of `examples` that use it and the exit codes."""
    subparsers = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    exit_codes = examples[examples.index("  exit codes") :]
    for name, action in actions.items():
        lines = [n for n in examples.splitlines() if n.startswith(f"  queue {command} {name}")]
        yield (
            name,
            subparsers.add_parser(
                name,
                help=action.summary,
                description=action.summary,
                epilog="\n".join(["examples:", *lines, exit_codes]),
                formatter_class=argparse.RawDescriptionHelpFormatter,
            ),
        )


def add_reason(parser: Any) -> None:
    parser.add_argument("--reason", default="", help="reason (recorded in the audit log)")


def add_interval(parser: Any, default: float) -> None:
    """`--interval SECONDS`, for commands with `--watch`."""
    parser.add_argument(
        "--interval", type=above_zero, default=default, metavar="SECONDS",
        help=f"with --watch: seconds between updates (default {default:g})",
    )  # fmt: skip


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


def _integer(text: str, minimum: int) -> int:
    number = int(text) if text.isdecimal() and len(text) < 10 else -1
    if number < minimum:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {minimum}")
    return number


def timestamp(text: str) -> datetime:
    """An argparse type: an ISO 8601 date or time, in UTC unless it has an offset."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; format: 2026-11-28 06:00") from None
    return given if given.tzinfo else given.replace(tzinfo=UTC)
