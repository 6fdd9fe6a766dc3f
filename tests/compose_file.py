"""compose.yaml as tests read it: its services, their commands, and their environment made whole."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "compose" / "compose.yaml"
EXAMPLE = ROOT / "compose" / ".env.example"
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<rest>[^}]*))?\}")


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]
    return found


def command(service: Mapping[str, Any]) -> list[str]:
    """The arguments of a service's command, as compose passes them to the container."""
    command_line = service["command"]
    arguments = shlex.split(command_line) if isinstance(command_line, str) else command_line
    return [argument.replace("$$", "$") for argument in arguments]


def health_check(service: Mapping[str, Any]) -> list[str]:
    """The command of a service's health check."""
    kind, *arguments = service["healthcheck"]["test"]
    arguments = [argument.replace("$$", "$") for argument in arguments]
    return ["sh", "-c", *arguments] if kind == "CMD-SHELL" else arguments


def workers() -> dict[str, list[str]]:
    """The commands of the services that are Celery workers."""
    commands = {name: command(s) for name, s in services().items() if "command" in s}
    return {name: arguments for name, arguments in commands.items() if arguments[:4] == [*CELERY, "worker"]}


CELERY = ["celery", "-A", "project"]


def environment(service: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """A service's variables with those of `.env` filled in; what is set nowhere is left out."""
    stated = service.get("environment", {})
    passed_on = {n: given[n] for n, value in stated.items() if value is None and n in given}
    return passed_on | {
        n: VARIABLE.sub(lambda found: _value(found, given), value)
        for n, value in stated.items()
        if value is not None
    }


def _value(found: re.Match[str], given: Mapping[str, str]) -> str:
    name, kind, rest = found["name"], found["kind"], found["rest"]
    if given.get(name):
        return given[name]
    if kind == "?":
        raise KeyError(f"{name}: {rest}")
    return rest or ""


def example_names() -> dict[str, str]:
    """The variables `.env.example` leaves to be filled in, filled in."""
    lines = EXAMPLE.read_text().splitlines()
    return {line[:-1]: "filled-in" for line in lines if re.fullmatch(r"\w+=", line)}
