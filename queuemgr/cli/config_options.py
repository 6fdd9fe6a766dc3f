"""Settings as command line options, generated from their definitions: `--max-pending`, `--lease-seconds`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from queuemgr.base.credentials import of_urls
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.settings_group import SettingsGroup, apply_command_line

PREFIX = "setting_"


def add(parser: Any, group: type[SettingsGroup], names: Iterable[str] | None = None, **aliases: str) -> None:
    """Add an option for each setting of a group; `aliases` gives one a second name
    (`daily_budget="--budget"`).

    Not for secrets: the process list shows command lines.
    """
    section = parser.add_argument_group(f"settings ({str(group.__doc__).strip()[:-1].lower()})")
    for name in names or group.model_fields:
        field = group.model_fields[name]
        if name in group.secrets():
            continue
        option = f"--{name.replace('_', '-')}"
        default = field.default if field.default != "" else "none"
        on_off: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
        section.add_argument(
            *([option, aliases[name]] if name in aliases else [option]),
            dest=PREFIX + name,
            **(on_off if field.annotation is bool else {"metavar": "VALUE"}),
            help=f"{field.description} (default {default}; env {group.variable(name)})".replace("%", "%%"),
        )


def apply(options: dict[str, Any]) -> dict[str, Any]:
    """Apply the settings given, in this process and those it starts; returns them by name. Raises
    `ConfigurationError` for a URL with a password."""
    values = {name: value for name, value in options.items() if value is not None}
    chosen = {name.removeprefix(PREFIX): values[name] for name in values if name.startswith(PREFIX)}
    for name, value in chosen.items():
        if isinstance(value, str) and of_urls(value):
            option = f"--{name.replace('_', '-')}"
            raise ConfigurationError(
                f"{option} holds a password, and everybody can see command lines: set it in the environment"
            )
    if chosen:
        apply_command_line(chosen)
    return chosen
