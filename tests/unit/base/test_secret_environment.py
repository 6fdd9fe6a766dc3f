"""Secrets taken out of the environment: this process keeps them, its children and the system see none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from celery import platforms
from celery.apps import worker as celery_worker

from pipeline.config import PipelineSettings
from queuemgr.base import process_state, secret_environment
from queuemgr.base.program_secrets import keep_secrets_in_memory
from queuemgr.worker.secrets_in_memory import keep_secrets
from tests.compose_file import ROOT

MARK = "a-marked-secret-of-this-test"
CHILD = [sys.executable, "-c", "import os; print(dict(os.environ))"]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SLUICE_LLM_API_KEY", MARK)
    yield
    process_state.reset_all()


def test_settings_are_still_read_after_secrets_left_the_environment() -> None:
    keep_secrets_in_memory()
    assert "SLUICE_LLM_API_KEY" not in os.environ
    assert PipelineSettings.load().llm_api_key.get_secret_value() == MARK
    assert PipelineSettings.source("llm_api_key") == "environment"
    process_state.reset_settings()  # as a command line does
    assert PipelineSettings.load().llm_api_key.get_secret_value() == MARK


def test_a_child_finds_no_secret_unless_it_is_the_same_program_again() -> None:
    keep_secrets_in_memory()
    assert MARK not in subprocess.run(CHILD, capture_output=True, text=True, check=True).stdout
    again = secret_environment.for_same_program()
    assert MARK in subprocess.run(CHILD, capture_output=True, text=True, check=True, env=again).stdout


def test_what_the_system_shows_of_the_start_of_a_process_is_overwritten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = (
        "from pathlib import Path; from queuemgr.base.secret_environment import keep_in_memory as keep;"
        "keep(['SECRET']); print(Path('/proc/self/environ').read_bytes())"
    )
    monkeypatch.delenv("SLUICE_LLM_API_KEY")
    environment = {**os.environ, "SECRET": MARK, "OTHER": "still there", "PYTHONPATH": str(ROOT)}
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    ).stdout
    assert MARK not in shown
    assert "still there" in shown


def test_a_hidden_variable_is_still_given_to_children_and_not_shown_by_the_system() -> None:
    code = (
        "import subprocess, sys; from pathlib import Path; from queuemgr.base.secret_environment import hide;"
        "hide(['SLUICE_LLM_API_KEY', 'NOT_SET']);"
        f"assert {MARK!r} not in Path('/proc/self/environ').read_text();"
        "subprocess.run([sys.executable, '-c', 'import os; print(dict(os.environ))'], check=True)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert MARK in done.stdout


def test_a_worker_that_sighup_restarts_gets_its_secrets_again(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, str]] = []
    monkeypatch.setattr(celery_worker, "_reload_current_worker", celery_worker._reload_current_worker)
    monkeypatch.setattr(platforms, "close_open_fds", lambda kept: None)
    monkeypatch.setattr(os, "execve", lambda path, command, environment: started.append(environment))
    keep_secrets()
    assert "SLUICE_LLM_API_KEY" not in os.environ
    celery_worker._reload_current_worker()
    assert started[0]["SLUICE_LLM_API_KEY"] == MARK


def test_a_variable_set_anew_counts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets_in_memory()
    monkeypatch.setenv("SLUICE_LLM_API_KEY", "another-secret")
    assert PipelineSettings.load().llm_api_key.get_secret_value() == "another-secret"
