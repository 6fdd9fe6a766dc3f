"""No setting takes a number too large for a column, for a date, or for a wait."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipeline.config import PipelineSettings
from project.config import ProjectSettings
from queuemgr.base.column_sizes import MAX_INTEGER
from queuemgr.base.config import LaneSettings, ObservabilitySettings, QueueSettings, WebhookSettings
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.settings_group import SettingsGroup

GROUPS: list[type[SettingsGroup]] = [
    QueueSettings, LaneSettings, ObservabilitySettings, WebhookSettings, PipelineSettings, ProjectSettings,
]  # fmt: skip
NUMBERS = [
    pytest.param(group, name, field.annotation, id=group.variable(name))
    for group in GROUPS
    for name, field in group.model_fields.items()
    if field.annotation in (int, float)
]
POWERS = (*range(-1, 13), 20, 100, 300)
MORE_THAN_ANY = {int: [2**60, 10**30], float: [1e12, 1e308, math.inf, math.nan]}


def refuses(group: type[SettingsGroup], name: str, value: Any) -> bool:
    try:
        group.load({group.variable(name): value})
    except ConfigurationError as error:
        return group.variable(name) in str(error)
    return False


@pytest.mark.parametrize(("group", "name", "kind"), NUMBERS)
def test_a_number_too_large_is_refused_by_its_name(
    group: type[SettingsGroup], name: str, kind: type[int] | type[float]
) -> None:
    for value in MORE_THAN_ANY[kind]:
        assert refuses(group, name, value), value
    if kind is int and "byte" not in str(group.model_fields[name].description):
        assert refuses(group, name, MAX_INTEGER + 1)


@pytest.mark.parametrize(("group", "name", "kind"), [each for each in NUMBERS if each.values[2] is float])
def test_the_longest_time_a_setting_takes_can_be_counted(
    group: type[SettingsGroup], name: str, kind: type[float]
) -> None:
    unit = timedelta(days=1) if name.endswith("_days") else timedelta(seconds=1)
    longest = max(10.0**power for power in POWERS if not refuses(group, name, 10.0**power))
    now = datetime(2026, 11, 29, tzinfo=UTC)
    assert now - longest * unit < now < now + longest * unit
