"""Exit codes of all commands, and usage errors that suggest what a mistyped word may have meant."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from types import MethodType
from typing import Any, NoReturn

from django.core.management import CommandError

FINE, SOME_FAILED, COULD_NOT, LEFT, UNREACHABLE, USAGE = 0, 2, 3, 4, 5, 64

EXIT_CODES = {
    FINE: "success",
    1: "`doctor` found a problem; or a bug: there is a traceback",
    SOME_FAILED: "completed, but part of it failed (the failures are named)",
    COULD_NOT: "refused or incomplete (with the reason); what was done stays",
    LEFT: "a drained run ended with work left, because of a budget, a pause or drained workers",
    UNREACHABLE: "the database does not answer",
    USAGE: "the command line is wrong (with the correct usage)",
    130: "interrupted by Ctrl-C or SIGTERM",
    141: "the reader of the output pipe has gone",
}
"""What every command's exit code means; docs/operate.md shows the same table."""

SUMMARY = (
    f"exit codes: {FINE} success, {COULD_NOT} refused (with the reason), {UNREACHABLE} no database, "
    f"{USAGE} wrong usage; all in docs/operate.md"
)


def improve_errors(parser: argparse.ArgumentParser) -> None:
    """Have this parser and its subparsers suggest what a mistyped word may have meant, and exit
    with `USAGE`."""
    parser.error = MethodType(_error, parser)  # type: ignore[method-assign]  # this one parser's only
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                improve_errors(sub)
                sub.parse_known_args = MethodType(_parse_all, sub)


def _parse_all(parser: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
    """Report unknown options in the subcommand: the top parser does not know its options."""
    parsed, unknown = argparse.ArgumentParser.parse_known_args(parser, *args, **kwargs)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return parsed, unknown


def _error(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    error = f"{message}{_suggestion(parser, message)}"
    if not getattr(parser, "called_from_command_line", True):
        raise CommandError(f"Error: {error}", returncode=USAGE)
    parser.print_usage(sys.stderr)
    sys.stderr.write(f"{parser.prog}: error: {error}; see {parser.prog} --help\n")
    raise SystemExit(USAGE)


def _suggestion(parser: argparse.ArgumentParser, message: str) -> str:
    """`; did you mean stats?` if a known word resembles the wrong one, else empty."""
    choice = re.search(r"invalid choice: '([^']*)'", message)
    unknown = re.search(r"unrecognized arguments: (.*)", message)
    words, known = [], set[str]()
    if choice:
        words, known = [choice[1]], {str(c) for action in parser._actions for c in action.choices or ()}
    elif unknown:
        words = [word.partition("=")[0] for word in unknown[1].split() if word.startswith("-")]
        known = {option for action in parser._actions for option in action.option_strings}
    similar = [near for word in words for near in difflib.get_close_matches(word, known, n=2)]
    return f"; did you mean {' or '.join(similar)}?" if similar else ""
