"""The help of each subcommand, which is printed once for all that is said of it."""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stdout
from functools import cache

import pytest
from django.core.management import call_command
from django.core.management.base import CommandParser

from queuemgr.cli.subcommands import load_all
from queuemgr.management.commands.queue import Command


@cache
def help_of(name: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit) as ended:
        call_command("queue", *name.split(), "--help")
    assert ended.value.code == 0
    return out.getvalue()


@cache
def parser() -> CommandParser:
    return Command().create_parser("manage.py", "queue")


@pytest.mark.parametrize("name", load_all())
def test_every_subcommand_s_help_has_examples_that_parse(name: str) -> None:
    examples = re.findall(rf"^  (queue {name}.*)$", help_of(name), re.MULTILINE)
    assert examples
    for example in examples:
        command = shlex.split(re.split(r" (?:[|<>]|&&)|  +", example)[0])
        assert parser().parse_args(command[1:]).subcommand == name.split()[0]


@pytest.mark.parametrize("name", load_all())
def test_the_help_of_every_subcommand_names_its_exit_codes(name: str) -> None:
    assert "exit codes: 0 " in help_of(name) or "exit codes with --drain: 0 " in help_of(name)
    assert f"queue {name}" in help_of(name)
