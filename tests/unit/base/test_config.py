"""SettingsGroup: which of four sources wins, the source of a value, and the message for a bad one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.config import PipelineSettings
from project.config import ProjectSettings
from queuemgr.base.config import QueueSettings, queue_settings
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.settings_group import COMMAND_LINE, DJANGO_SETTINGS, apply_command_line

ROOT = Path(__file__).resolve().parents[3]
SECRET = "sk-do-not-show-me"


@pytest.fixture(autouse=True)
def _empty_command_line(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No setting from the command line before or after a test."""
    monkeypatch.setenv(COMMAND_LINE, "{}")
    yield
    queue_settings.cache_clear()


def on_command_line(monkeypatch: pytest.MonkeyPatch, **configure: object) -> None:
    monkeypatch.setenv(COMMAND_LINE, json.dumps(configure))


def test_a_setting_set_nowhere_has_its_default():
    assert QueueSettings.load().max_pending == 0
    assert QueueSettings.source("max_pending") == "default"


def test_the_environment_wins_over_the_default(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLUICE_MAX_PENDING", "3")
    assert QueueSettings.load().max_pending == 3
    assert QueueSettings.source("max_pending") == "environment"


def test_settings_win_over_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLUICE_MAX_PENDING", "3")
    settings = {"SLUICE_MAX_PENDING": 5}
    assert QueueSettings.load(settings).max_pending == 5
    assert QueueSettings.source("max_pending", settings) == "settings"


def test_the_command_line_wins_over_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLUICE_MAX_PENDING", "3")
    on_command_line(monkeypatch, max_pending="7")
    settings = {"SLUICE_MAX_PENDING": 5}
    assert QueueSettings.load(settings).max_pending == 7
    assert QueueSettings.source("max_pending", settings) == "command line"


def test_a_zero_on_the_command_line_counts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLUICE_DAILY_BUDGET", "50")
    on_command_line(monkeypatch, daily_budget=0)
    assert QueueSettings.load().daily_budget == 0


def test_django_s_settings_are_settings(settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLUICE_RETRY_PERCENT", "1")
    settings.SLUICE_RETRY_PERCENT = 2
    assert QueueSettings.load(DJANGO_SETTINGS).retry_percent == 2
    assert QueueSettings.source("retry_percent", DJANGO_SETTINGS) == "settings"


def test_command_line_settings_apply_at_once_and_add_up(monkeypatch: pytest.MonkeyPatch):
    assert queue_settings().max_pending == 0
    apply_command_line({"max_pending": "4"})
    apply_command_line({"retry_percent": "2"})
    assert (queue_settings().max_pending, queue_settings().retry_percent) == (4, 2)


def test_command_line_settings_reach_the_processes_a_command_starts(monkeypatch: pytest.MonkeyPatch):
    apply_command_line({"max_pending": "4"})
    code = (
        "from queuemgr.base.config import QueueSettings as S;"
        "print(S.load().max_pending, S.source('max_pending'))"
    )
    child = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert child.stdout == "4 command line\n"


@pytest.mark.parametrize(
    ("variable", "value", "right"),
    [
        ("SLUICE_MAX_WORKERS", "0", "greater than or equal to 1"),
        ("SLUICE_MAX_WORKERS", "many", "integer"),
        ("SLUICE_LEASE_SECONDS", "0.5", "greater than or equal to 1"),
        ("SLUICE_POLL_INTERVAL", "7200", "less than or equal to 3600"),
        ("SLUICE_DAILY_BUDGET", "-1", "greater than or equal to 0"),
    ],
)
def test_a_value_out_of_range_is_named_with_the_range(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, right: str
):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError) as refused:
        QueueSettings.load()
    assert variable in str(refused.value)
    assert value in str(refused.value)
    assert right in str(refused.value)


def test_every_bad_value_is_named_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLUICE_MAX_PENDING", "-1")
    monkeypatch.setenv("SLUICE_RETRY_PERCENT", "-2")
    with pytest.raises(ConfigurationError, match=r"SLUICE_RETRY_PERCENT='-2'.*SLUICE_MAX_PENDING='-1'"):
        QueueSettings.load()


def test_a_bad_value_in_the_settings_is_named_too():
    with pytest.raises(ConfigurationError, match="SLUICE_SEED_LIMIT=0"):
        QueueSettings.load({"SLUICE_SEED_LIMIT": 0})


def test_a_lease_must_outlive_two_heartbeats(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLUICE_LEASE_SECONDS", "50")
    with pytest.raises(
        ConfigurationError, match=r"SLUICE_HEARTBEAT_SECONDS=30.*half of SLUICE_LEASE_SECONDS=50"
    ):
        QueueSettings.load()


def test_the_reserve_must_be_smaller_than_all_slots(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLUICE_MAX_WORKERS", "4")
    monkeypatch.setenv("SLUICE_HIGH_PRIORITY_RESERVED", "4")
    with pytest.raises(ConfigurationError, match=r"SLUICE_HIGH_PRIORITY_RESERVED=4.*SLUICE_MAX_WORKERS=4"):
        QueueSettings.load()


def test_one_slot_needs_no_reserve(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLUICE_MAX_WORKERS", "1")
    assert QueueSettings.load().max_workers == 1


@pytest.mark.parametrize("variable", ["DATABASE_URL", "BROKER_URL"])
def test_settings_without_our_prefix_are_read(monkeypatch: pytest.MonkeyPatch, variable: str):
    monkeypatch.setenv(variable, "a://b")
    assert getattr(ProjectSettings.load(), variable.lower()).get_secret_value() == "a://b"
    assert ProjectSettings.source(variable.lower()) == "environment"


def test_a_secret_shows_in_no_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLUICE_LLM_API_KEY", SECRET)
    monkeypatch.setenv("SLUICE_HTTP_TIMEOUT", "-1")
    with pytest.raises(ConfigurationError) as refused:
        PipelineSettings.load()
    assert "SLUICE_HTTP_TIMEOUT='-1'" in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_secret_does_not_show_when_settings_are_printed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLUICE_LLM_API_KEY", SECRET)
    assert SECRET not in repr(PipelineSettings.load())


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments], env={**os.environ, **environment},
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_command_reports_settings_that_cannot_work_in_one_line(tmp_path: Path):
    own = {"SLUICE_DATA_DIR": str(tmp_path), "DATABASE_URL": ""}
    refused = manage("queue", "stats", SLUICE_LEASE_SECONDS="5", SLUICE_HEARTBEAT_SECONDS="30", **own)
    assert refused.returncode == 3
    assert refused.stdout == ""
    assert "SLUICE_HEARTBEAT_SECONDS=30" in refused.stderr
    assert "SLUICE_LEASE_SECONDS=5" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_the_help_of_queue_and_a_mistyped_command_need_no_settings():
    shown, mistyped = (manage("queue", word, SLUICE_SLOTS="none") for word in ("--help", "stast"))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert mistyped.returncode == 64
    assert "did you mean stats" in mistyped.stderr


def test_ctrl_c_while_it_starts_ends_a_command_without_a_traceback(tmp_path: Path):
    (tmp_path / "pressed.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    own = {"DJANGO_SETTINGS_MODULE": "pressed", "PYTHONPATH": str(tmp_path)}
    stopped = manage("check", **own)
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (130, "", "")


@pytest.mark.parametrize(
    "url", ["mysql://someone:hush-hush@host/name", "postgres://someone:hush-hush@[host/name"]
)
def test_a_database_url_that_cannot_work_is_refused_without_showing_its_password(url: str):
    refused = manage("check", DATABASE_URL=url)
    assert refused.returncode != 0
    assert "DATABASE_URL" in refused.stderr
    assert "hush-hush" not in refused.stderr + refused.stdout
    assert "Traceback" not in refused.stderr
