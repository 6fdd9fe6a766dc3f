"""Exit codes of all commands, and what is said of a word that none of them knows."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterable, Iterator
from types import MethodType
from typing import Any, NoReturn

from django.core.management import CommandError

FINE, SOME_FAILED, COULD_NOT, LEFT, UNREACHABLE, USAGE = 0, 2, 3, 4, 5, 64

EXIT_CODES = {
    FINE: "everything asked for was done",
    1: "`doctor` found something bad; or a bug: there is a traceback",
    SOME_FAILED: "it was done, and something in it failed (named)",
    COULD_NOT: "it could not be done, or not all of it (why); what was done stays",
    LEFT: "a drained run stopped with work left, at a budget or a pause",
    UNREACHABLE: "the database does not answer",
    USAGE: "the command line is wrong (what, and what would be right)",
    130: "stopped by Ctrl-C or SIGTERM",
    141: "whoever read the output has gone",
}
"""What every command's exit code means; docs/operate.md shows the same table."""

IN_SHORT = (
    f"exit codes: {FINE} done, {COULD_NOT} could not (why), {UNREACHABLE} no database, "
    f"{USAGE} wrong usage; all in docs/operate.md"
)


def told_better(parser: argparse.ArgumentParser) -> None:
    """Have this parser, and those of its subcommands, name what a mistyped word may have meant, and
    end with a code of its own."""
    parser.error = MethodType(_error, parser)  # type: ignore[method-assign]  # this one parser's only
    for action in _subparsers(parser):
        for sub in action.choices.values():
            told_better(sub)
            sub.parse_known_args = MethodType(_parse_all, sub)


def _parse_all(parser: argparse.ArgumentParser, *given: Any, **named: Any) -> tuple[Any, list[str]]:
    """What a subcommand does not know is its own complaint: at the top nobody knows its options."""
    parsed, unknown = argparse.ArgumentParser.parse_known_args(parser, *given, **named)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return parsed, unknown


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[Any]:
    return (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))


def _error(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    told = f"{message}{_meant(parser, message)}"
    if not getattr(parser, "called_from_command_line", True):
        raise CommandError(f"Error: {told}", returncode=USAGE)
    parser.print_usage(sys.stderr)
    sys.stderr.write(f"{parser.prog}: error: {told}; see {parser.prog} --help\n")
    raise SystemExit(USAGE)


def _meant(parser: argparse.ArgumentParser, message: str) -> str:
    """`; did you mean stats?` where a word like the wrong one is known here."""
    choice = re.search(r"invalid choice: '([^']*)'", message)
    unknown = re.search(r"unrecognized arguments: (.*)", message)
    if choice:
        near = _near(choice[1], _choices(parser))
    elif unknown:
        words = [word.partition("=")[0] for word in unknown[1].split() if word.startswith("-")]
        near = [n for word in words for n in _near(word, _options(parser))]
    else:
        return ""
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _near(word: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(word, list(known), n=2, cutoff=0.6)


def _choices(parser: argparse.ArgumentParser) -> set[str]:
    return {str(choice) for action in parser._actions for choice in action.choices or ()}


def _options(parser: argparse.ArgumentParser) -> set[str]:
    """Options of this parser and its subcommands: argparse complains of unknown ones at the top."""
    own = {option for action in parser._actions for option in action.option_strings}
    below = (_options(sub) for action in _subparsers(parser) for sub in action.choices.values())
    return own.union(*below)
