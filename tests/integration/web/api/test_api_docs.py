"""The examples of docs/api.md do what they say."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client

from queuemgr.operations.api_tokens import SCOPES
from queuemgr.scheduling import limit_rows
from queuemgr.web.api.executions import ExecutionFilter
from tests.compose_file import ROOT
from tests.integration.cli.commands import queue
from tests.integration.web.api.api_client import someone

pytestmark = [
    pytest.mark.django_db(transaction=True, reset_sequences=True),
    pytest.mark.usefixtures("static_root", "sent"),
]

PAGE = (ROOT / "docs" / "api.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)


@dataclass(frozen=True)
class Example:
    command: str
    answer: str


def examples() -> list[Example]:
    """Every command of the page with the lines it should print."""
    parts = [part for block in BLOCKS for part in re.split(r"^\$ ", block, flags=re.MULTILINE)]
    split = [part.partition("\n") for part in parts if part]
    return [Example(command, answer.strip()) for command, _, answer in split]


def curl(command: str, values: dict[str, str]) -> Any:
    """The response to the request of this `curl`, made in-process."""
    for name, value in values.items():
        command = command.replace(f"${name}", value)
    arguments, method, headers, body, url = shlex.split(command)[1:], "GET", {}, "", ""
    while arguments:
        argument = arguments.pop(0)
        if argument == "-X":
            method = arguments.pop(0)
        elif argument == "-H":
            name, _, value = arguments.pop(0).partition(": ")
            headers[name] = value
        elif argument == "-d":
            body = arguments.pop(0)
        elif argument != "-s":
            url = argument
    kind = headers.pop("Content-Type", "")
    return Client().generic(method, url, body.encode(), kind, headers=headers)


def test_every_example_runs_in_order_and_prints_what_the_page_says() -> None:
    limit_rows.sync()
    someone("ann")
    first, *rest = examples()
    made = re.fullmatch(r"TOKEN=\$\(python manage.py queue (.*)\)", first.command)
    assert made
    token = queue(*shlex.split(made[1])).out.strip()
    for example in rest:
        assert example.command.startswith("curl -s "), example
        answer = curl(example.command, {"TOKEN": token, "URL": ""})
        if example.answer:
            assert answer.json() == json.loads(example.answer), example.command
        else:
            assert answer.status_code in (200, 201), (example.command, answer.content)


def test_every_scope_and_filter_is_on_the_page() -> None:
    for name in (*SCOPES, *ExecutionFilter.model_fields):
        assert f"`{name}`" in PAGE, name
