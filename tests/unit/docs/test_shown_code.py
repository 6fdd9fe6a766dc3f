"""On every page: a command is one that its parser takes, Python compiles, JSON can be read."""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from tests.acceptance.documented_page import Block, Page
from tests.compose_file import ROOT

PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md",
    ROOT / "compose" / "README.md",
]  # fmt: skip
MANAGE = re.compile(r"(?:^|[ $(=])manage\.py (?P<command>\w+)(?P<arguments>[^\n]*)")
END = re.compile(r"\s(?:[|&;<>)]|#\s|\s{2,}).*$|\)$")
OURS = ("queue", "worker", "doctor", "serve", "up", "ocr", "index")


@cache
def parser(name: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = load_command_class(str(get_commands()[name]), name).create_parser(
        "manage.py", name
    )
    return made


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of ours in a block, with their arguments; two columns of them on a line, too."""
    lines = block.text.replace("\\\n", " ").splitlines()
    cells = [cell for line in lines for cell in re.split(r" {2,}(?=manage\.py )", line)]
    found = [match for cell in cells for match in MANAGE.finditer(cell)]
    return [
        (match["command"], END.sub("", match["arguments"])) for match in found if match["command"] in OURS
    ]


SHOWN = [
    pytest.param(name, arguments, id=f"{page.name}-{name}{arguments}")
    for page in PAGES
    for block in Page(page).blocks
    if block.language in ("", "console", "bash", "sh")
    for name, arguments in commands(block)
]


@pytest.mark.parametrize(("name", "arguments"), SHOWN)
def test_a_command_that_a_page_shows_is_taken_by_its_parser(name: str, arguments: str) -> None:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            parser(name).parse_args(shlex.split(arguments))
    except SystemExit as end:
        assert end.code == 0, said.getvalue()


def test_there_are_such_commands() -> None:
    assert len(SHOWN) > 80


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_of_a_page_compiles_and_json_can_be_read(page: Path) -> None:
    for block in Page(page).blocks:
        where = f"line {block.line}"
        if block.language == "python":
            assert ast.parse(block.text), where
        elif block.language == "json":
            assert json.loads(block.text) is not None, where
