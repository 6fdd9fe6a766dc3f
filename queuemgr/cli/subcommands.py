"""The subcommands of `manage.py queue`: functions, registered with their help and arguments."""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from textwrap import indent
from typing import Any, NamedTuple

from queuemgr import cli
from queuemgr.cli.exit_codes import SUMMARY
from queuemgr.flows.flow import all_phases

Options = dict[str, Any]
Run = Callable[[Options, Any], int | None]
"""Takes the options and the output stream; returns the exit code, None for 0."""

Argument = Callable[[Any], object]
"""Adds one argument, or several, to a parser."""


class Subcommand(NamedTuple):
    """`run` is None for a group of actions, such as `batch`."""

    summary: str
    examples: str
    notes: str
    arguments: tuple[Argument, ...]
    run: Run | None = None


_registered: dict[str, Subcommand] = {}
"""By name; an action of a group has the name of its group before it, as `batch open`."""


def subcommand(name: str, *arguments: Argument, notes: str = "") -> Callable[[Run], Run]:
    """Register a function as the subcommand of this name, or as an action of a group (`batch open`).

    Its docstring is the help: a summary and, after an empty line, examples and notes.
    """

    def register(run: Run) -> Run:
        summary, _, examples = inspect.cleandoc(run.__doc__ or "").partition("\n\n")
        _registered[name] = Subcommand(summary, examples, notes, arguments, run)
        return run

    return register


def group(name: str, summary: str, notes: str = "") -> None:
    """Register a subcommand that has actions; call it before they are registered."""
    _registered[name] = Subcommand(summary, "", notes, ())


MODULES: Mapping[str, tuple[str, ...]] = {
    "accounts": ("roles", "token", "user"),
    "audit": ("audit", "undo"),
    "change_executions": ("cancel", "priority", "reschedule", "retry", "retry-failed", "skip"),
    "controls": ("limit", "limits", "pause", "policy", "remove-limit", "resume"),
    "enqueue": ("backfill", "enqueue"),
    "import_file": ("import",),
    "list_executions": ("list",),
    "show": ("attempts", "show", "why"),
    "workers": ("worker",),
}
"""The first words that modules of this package register, where these are not the module's own name."""


def load_all() -> dict[str, Subcommand]:
    """All subcommands: each module of this package registers its own as it is imported."""
    for module in pkgutil.iter_modules(cli.__path__):
        importlib.import_module(f"{cli.__name__}.{module.name}")
    return _registered


def load(word: str) -> dict[str, Subcommand]:
    """Those that begin with this word, without importing the others; all, where there is none."""
    module = next((module for module, words in MODULES.items() if word in words), word)
    if module in (found.name for found in pkgutil.iter_modules(cli.__path__)):
        importlib.import_module(f"{cli.__name__}.{module}")
    known = {name: command for name, command in _registered.items() if name.split()[0] == word}
    return known or load_all()


def add_parsers(parser: Any, subcommands: Mapping[str, Subcommand]) -> None:
    """Add a parser for each subcommand, and to those of groups one for each action."""
    below = {"": parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")}
    for name, command in sorted(subcommands.items(), key=lambda item: item[0].split()[0]):
        parent, _, own_name = name.rpartition(" ")
        # `queue --help` lists the commands in groups (cli/overview.py), and not here a second time.
        listed = {"help": command.summary} if parent else {}
        sub = below[parent].add_parser(
            own_name,
            **listed,
            description=command.summary,
            epilog=_epilog(name, command),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for add in command.arguments:
            add(sub)
        if command.run is None:
            below[name] = sub.add_subparsers(dest="action", required=True, metavar="ACTION")
        else:
            sub.set_defaults(run=command.run)
            # Before the subcommand Django takes it; behind it people write it.
            sub.add_argument(
                "--no-color", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
            )


def _epilog(name: str, command: Subcommand) -> str:
    """Its examples (of a group: those of its actions), with a phase there is, and its exit codes."""
    examples = [c.examples for n, c in _registered.items() if f"{n} ".startswith(f"{name} ")]
    notes = command.notes or _registered[name.split()[0]].notes
    text = indent("\n".join(filter(None, [*examples, notes])), "  ")
    codes = "" if "exit codes" in text else f"\n  {SUMMARY}"
    return f"examples:\n{text}{codes}\n".replace("{phase}", next(iter(all_phases()), "phase"))


def option(*names: str, **settings: Any) -> Argument:
    """An option or positional argument, by the arguments of argparse's `add_argument`."""
    return lambda parser: parser.add_argument(*names, **settings)


def given(options: Options, names: Iterable[str]) -> dict[str, Any]:
    """Those of these options that were given."""
    return {name: options[name] for name in names if options[name] is not None}
