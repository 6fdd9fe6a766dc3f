"""docs/configuration.md says what the code does: every setting, its default, its range, its option."""

from __future__ import annotations

import re

import pytest

from docs import configuration_page
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

GROUPS = (
    ProjectSettings, QueueSettings, phase_settings_group(), LaneSettings, ObservabilitySettings,
    WebhookSettings, AlertSettings, PipelineSettings,
)  # fmt: skip
PAGE = configuration_page.PAGE.read_text()

PROMISED = [
    *("DATABASE_URL", "BROKER_URL", "SLUICE_DATA_DIR", "SLUICE_MAX_WORKERS", "SLUICE_MAX_PREP"),
    *("SLUICE_MAX_EXPENSIVE", "SLUICE_MAX_WRAP", "SLUICE_HIGH_PRIORITY_RESERVED"),
    *("SLUICE_DAILY_BUDGET", "SLUICE_LEASE_SECONDS", "SLUICE_HEARTBEAT_SECONDS"),
    *("SLUICE_STALE_INTERVAL", "SLUICE_SEED_LIMIT", "SLUICE_POLL_INTERVAL"),
    *("SLUICE_HTTP_MAX_CONN", "SLUICE_HTTP_KEEPALIVE"),
    *("SLUICE_LLM_BASE_URL", "SLUICE_LLM_API_KEY", "SLUICE_LLM_MODEL"),
]


def test_the_tables_are_up_to_date():
    remedy = "run: python docs/make_pages.py"
    assert configuration_page.page(PAGE) == PAGE, remedy


@pytest.mark.parametrize("variable", PROMISED)
def test_every_promised_setting_exists(variable: str):
    assert f"| `{variable}` |" in PAGE


@pytest.mark.parametrize("group", GROUPS)
def test_every_setting_says_what_it_means(group: type[QueueSettings]):
    assert [name for name, field in group.model_fields.items() if not field.description] == []


def test_every_setting_in_seconds_says_so():
    timed = r"(seconds|interval|timeout|deadline|grace)$"
    for group in GROUPS:
        for name, field in group.model_fields.items():
            if re.search(timed, name):
                assert "seconds" in str(field.description), name


def test_a_secret_is_no_option_of_any_command():
    row = next(line for line in PAGE.splitlines() if "`SLUICE_LLM_API_KEY`" in line and "|" in line)
    assert "--" not in row


def test_a_page_without_a_place_for_a_table_is_refused():
    with pytest.raises(ValueError, match="0 places for ProjectSettings"):
        configuration_page.page("# Configuration\n")
