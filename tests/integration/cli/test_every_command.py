"""What holds for all commands of `queue`: JSON, colour, and the code of a wrong line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from django.core.management import CommandError, load_command_class

from queuemgr.cli import arguments
from queuemgr.cli.exit_codes import USAGE

WITHOUT_JSON = {
    "run": "a fleet, which logs",
    "watch": "a screen; stats has the same as JSON",
    "completion": "a script for a shell",
    "export": "JSON Lines in any case",
    "failed export": "JSON Lines in any case",
}


CHECKED = (
    arguments.positive, arguments.natural, arguments.above_zero, arguments.row_id, arguments.port,
    arguments.past, arguments.ahead,
)  # fmt: skip
"""Types that are no text."""


@cache
def parser() -> Any:
    return load_command_class("queuemgr", "queue").create_parser("manage.py", "queue")


def leaves(of: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    below = [action for action in of._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield path.strip(), of
    for action in below:
        for name, each in action.choices.items():
            yield from leaves(each, f"{path} {name}")


def options_of(of: argparse.ArgumentParser) -> set[str]:
    return {option for action in of._actions for option in action.option_strings}


def test_every_command_that_prints_or_changes_something_has_json() -> None:
    without = {path for path, each in leaves(parser()) if "--json" not in options_of(each)}
    assert without == WITHOUT_JSON.keys()


def test_no_color_is_taken_behind_every_command() -> None:
    assert all("--no-color" in options_of(each) for _, each in leaves(parser()))


def test_one_thing_has_one_name() -> None:
    """Spans between updates, limits of rows and reasons are called the same everywhere."""
    names = {option for _, each in leaves(parser()) for option in options_of(each)}
    assert not names & {"--every", "--seconds-between", "--max", "--why", "--because", "--comment"}


def test_a_wrong_command_line_has_the_same_code_in_every_command() -> None:
    for path, each in leaves(parser()):
        line = [*path.split(), "--no-such-option"]
        with pytest.raises((CommandError, SystemExit)) as refused:
            parser().parse_args(line)
        error = refused.value
        assert (error.code if isinstance(error, SystemExit) else error.returncode) == USAGE, path
        for action in each._actions:
            is_checked = action.type in CHECKED or action.choices
            if is_checked and action.option_strings and action.nargs != 0:
                wrong = [*path.split(), f"{action.option_strings[0]}=?!"]
                with pytest.raises((CommandError, SystemExit)) as refused:
                    parser().parse_args(wrong)
                error = refused.value
                assert (error.code if isinstance(error, SystemExit) else error.returncode) == USAGE, wrong
