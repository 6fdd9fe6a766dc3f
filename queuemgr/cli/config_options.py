"""SettingsGroup as command line options, made from their own definitions: `--max-prep`, `--lease-seconds`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from pydantic import SecretStr

from queuemgr.base.config import SettingsGroup, tell_children

PREFIX = "setting_"


def add(
    parser: Any, group: type[SettingsGroup], names: Iterable[str] | None = None, **aliases: str
) -> None:
    """Offer settings of a group as options; `aliases` gives one a second name (`daily_budget="--budget"`).

    Secrets are not offered: a command line shows in the process list.
    """
    section = parser.add_argument_group(f"settings ({str(group.__doc__).strip()[:-1].lower()})")
    for name in names or group.model_fields:
        field = group.model_fields[name]
        if field.annotation is SecretStr:
            continue
        option = f"--{name.replace('_', '-')}"
        default = field.default if field.default != "" else "none"
        on_off = argparse.BooleanOptionalAction if field.annotation is bool else "store"
        section.add_argument(
            *([option, aliases[name]] if name in aliases else [option]),
            dest=PREFIX + name,
            action=on_off,
            **({} if field.annotation is bool else {"metavar": "VALUE"}),
            help=f"{field.description} (default {default}; env {group.variable(name)})".replace(
                "%", "%%"
            ),
        )


def apply(options: dict[str, Any]) -> dict[str, Any]:
    """Put the settings given into force, here and in the processes started from here; returns them."""
    chosen = {
        name.removeprefix(PREFIX): value
        for name, value in options.items()
        if name.startswith(PREFIX) and value is not None
    }
    if chosen:
        tell_children(chosen)
    return chosen


def above_zero(text: str) -> float:
    """An argparse type: a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and below a million")
    return number


def positive(text: str) -> int:
    """An argparse type: a whole number of at least 1."""
    return _whole(text, 1)


def natural(text: str) -> int:
    """An argparse type: a whole number of at least 0."""
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    number = int(text) if text.isdecimal() and len(text) < 10 else -1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return number
