"""The tables of docs/configuration.md, made of the definitions of the settings themselves by make_pages.py.

Prose around the tables is written by hand; each table stands between two marks.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import annotated_types as bounds
from pydantic import SecretStr

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "configuration.md"
HEAD = ("setting", "meaning", "default", "range")
COMMANDS = ("queue", "up", "worker")

Options = Mapping[str, Mapping[str, list[str]]]
"""For each setting the options that set it, and for each of these the commands that take it."""


def page(text: str) -> str:
    """The page with its tables as the code has them now."""
    from pipeline.config import PipelineSettings
    from project.config import ProjectSettings
    from queuemgr.base.config import (
        AlertSettings,
        LaneSettings,
        ObservabilitySettings,
        QueueSettings,
        WebhookSettings,
    )
    from queuemgr.scheduling.phase_settings import phase_settings_group

    options = _options()
    for group in (
        ProjectSettings,
        QueueSettings,
        phase_settings_group(),
        LaneSettings,
        ObservabilitySettings,
        WebhookSettings,
        AlertSettings,
        PipelineSettings,
    ):
        table = "\n".join(_table(group, options))
        place = re.compile(rf"(<!-- {group.__name__} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, found = place.subn(partial(_filled, table), text)
        if found != 1:
            raise ValueError(f"{PAGE.name} has {found} places for {group.__name__}")
    return text


def _filled(table: str, place: re.Match[str]) -> str:
    return f"{place[1]}{table}\n{place[2]}"


def _table(group: Any, options: Options) -> Iterator[str]:
    takers = {c: c for n in group.model_fields for cs in options.get(n, {}).values() for c in cs}
    head = [*HEAD, *([f"option of {', '.join(f'`{c}`' for c in takers)}"] if takers else [])]
    yield _row(head)
    yield "|---" * len(head) + "|"
    for name, field in group.model_fields.items():
        cells = [f"`{group.variable(name)}`", field.description or "", _default(field), _range(field)]
        spoken = ", ".join(f"`{option}`" for option in options.get(name, {}))
        yield _row([*cells, *([spoken] if takers else [])])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _default(field: Any) -> str:
    value = field.default
    if isinstance(value, SecretStr) or value == "":
        return "none"
    return "off" if value is False else f"`{value}`"


def _range(field: Any) -> str:
    if field.annotation is bool:
        return "on or off"
    if field.annotation not in (int, float):
        return "path" if field.annotation is Path else "text"
    limits = [_limit(bound) for bound in field.metadata]
    whole = "whole number" if field.annotation is int else "number"
    return ", ".join([whole, *filter(None, limits)])


def _limit(bound: object) -> str:
    match bound:
        case bounds.Ge(ge=least):
            return f"from {least}"
        case bounds.Gt(gt=over):
            return f"over {over}"
        case bounds.Le(le=most):
            return f"to {most}"
    return ""


def _options() -> Options:
    """Which options of which commands set a setting, read off the commands' own parsers."""
    from queuemgr.cli.config_options import PREFIX

    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for command, parser in _parsers():
        for action in parser._actions:
            if action.dest.startswith(PREFIX):
                for option in action.option_strings:
                    found[action.dest.removeprefix(PREFIX)][option].append(command)
    return found


def _parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parsers of our commands and of their subcommands."""
    from django.core.management import get_commands, load_command_class

    for name in COMMANDS:
        parser = load_command_class(str(get_commands()[name]), name).create_parser("manage.py", name)
        yield name, parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from ((f"{name} {sub}", made) for sub, made in action.choices.items())
