"""docs/commands.md, made of the commands' own parsers by make_pages.py.

What stands before the first mark is written by hand.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "commands.md"
COMMANDS = ("queue", "worker", "doctor", "serve")
MARK = "<!-- written by docs/make_pages.py from here on -->\n"


def page(text: str) -> str:
    """The page with the commands as the code has them now."""
    before, mark, _ = text.partition(MARK)
    if not mark:
        raise ValueError(f"{PAGE.name} has no mark")
    return before + mark + "".join(_sections())


def _sections() -> Iterator[str]:
    for name in COMMANDS:
        yield f"\n## {name}\n"
        for path, about, parser in _leaves(name):
            yield from _section(path, about, parser)


def _section(path: str, about: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    if " " in path:
        yield f"\n### {path}\n"
    yield f"\n{_sentence(about)}\n"
    rows = [row for action in parser._actions if (row := _row(action))]
    if rows:
        yield "\n| argument | what it does |\n|---|---|\n"
        yield from rows
    if any(_is_setting(action) for action in parser._actions):
        yield f"\nIt also takes an option for {_settings(parser)}.\n"


def _row(action: argparse.Action) -> str:
    from django.core.management.base import DjangoHelpFormatter

    if action.dest == "help" or _is_setting(action) or _is_djangos(action):
        return ""
    if isinstance(action, argparse._SubParsersAction):
        return ""
    names = ", ".join(f"`{name}`" for name in _names(action))
    formatter = DjangoHelpFormatter("manage.py")
    said = formatter._expand_help(action) if action.help else ""
    if action.choices is not None:
        said = "; ".join(filter(None, [said, f"one of {', '.join(map(str, action.choices))}"]))
    return f"| {names} | {_cell(said)} |\n"


def _names(action: argparse.Action) -> list[str]:
    if not action.option_strings:
        return [str(action.metavar or action.dest)]
    value = "" if action.nargs == 0 else f" {str(action.metavar or action.dest).upper()}"
    return [option + value for option in action.option_strings]


def _leaves(name: str) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Each command that takes no further subcommand: its path, its help, its parser."""
    from django.core.management import get_commands, load_command_class

    command = load_command_class(str(get_commands()[name]), name)
    yield from _below(name, command.help, command.create_parser("manage.py", name))


def _below(
    path: str, about: str, parser: argparse.ArgumentParser
) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    subs = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not subs:
        yield path, about, parser
    for action in subs:
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, sub in action.choices.items():
            yield from _below(f"{path} {name}", sub.description or helps.get(name, ""), sub)


def _is_setting(action: argparse.Action) -> bool:
    from queuemgr.cli.config_options import PREFIX

    return action.dest.startswith(PREFIX)


def _is_djangos(action: argparse.Action) -> bool:
    """Whether each command of Django has it."""
    from django.core.management.base import DjangoHelpFormatter

    return any(option in DjangoHelpFormatter.show_last for option in action.option_strings)


def _settings(parser: argparse.ArgumentParser) -> str:
    number = sum(_is_setting(action) for action in parser._actions)
    return f"each of {number} settings: see [configuration](configuration.md)"


def _sentence(text: str) -> str:
    said = _plain(text.strip().split("\n\n")[0]).rstrip(".")
    return f"{said[:1].upper()}{said[1:]}."


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """Text in which nothing is Markdown."""
    return re.sub(r"([*_<>\[\]])", r"\\\1", re.sub(r"\s+", " ", text))
