"""Every secret among the settings is one by its type: it never shows, and each program's are declared."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import global_settings
from pydantic import SecretStr

from pipeline.config import PipelineSettings
from project import settings as project_settings
from project.config import ProjectSettings
from project.program_secrets import PROGRAM_SECRETS, programs
from queuemgr.base.config import LaneSettings, ObservabilitySettings, QueueSettings, WebhookSettings
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.program_secrets import environment_of, secret_variables, unneeded
from queuemgr.base.redaction import without_secrets
from queuemgr.base.settings_group import SettingsGroup
from queuemgr.cli import config_options
from queuemgr.flows.flow import HOUSEKEEPING, all_phases, application_flows
from tests.compose_file import ROOT
from tests.fork_server import ForkServer
from tests.shell import alone

GROUPS: tuple[type[SettingsGroup], ...] = (
    ProjectSettings, QueueSettings, LaneSettings, ObservabilitySettings, WebhookSettings, PipelineSettings,
)  # fmt: skip
FIELDS = [(group, name) for group in GROUPS for name in group.model_fields]
SECRETS = [(group, name) for group, name in FIELDS if name in group.secrets()]
TEXTS = [(group, name) for group, name in FIELDS if group.model_fields[name].annotation in (str, SecretStr)]
NAMED_LIKE_A_SECRET = re.compile(
    r"key|secret|token\b|tokens?_of|password|headers|credential|database_url|broker_url"
)
OTHER_APPS = re.compile(r"ROOT_URLCONF|UNFOLD|WHITENOISE_[A-Z_]+|CELERY_[A-Z_]+")
MARK = "marked-secret-4711"


def ids(value: object) -> str:
    return value.__name__ if isinstance(value, type) else str(value)


@pytest.mark.parametrize(("group", "name"), FIELDS, ids=ids)
def test_a_setting_that_is_called_like_a_secret_is_one(group: type[SettingsGroup], name: str) -> None:
    field = group.model_fields[name]
    if field.annotation is str:
        assert not NAMED_LIKE_A_SECRET.search(f"{name} {field.validation_alias or ''}".lower())


AN_APPLICATION = """
from pydantic import SecretStr
from queuemgr.base.settings_group import SettingsGroup
from queuemgr.base.program_secrets import secret_variables
from queuemgr.base.redaction import without_secrets

class Own(SettingsGroup):
    plain: SecretStr = SecretStr("")
    optional: SecretStr | None = None
    deep: dict[str, list[SecretStr]] | None = None
    no_secret: str | None = None

assert set(Own.secrets()) == {"plain", "optional", "deep"}
assert secret_variables() >= {"SLUICE_PLAIN", "SLUICE_OPTIONAL", "SLUICE_DEEP"}
loaded = Own.load({"SLUICE_DEEP": {"keys": ["of-a-deep-secret"]}, "SLUICE_OPTIONAL": "optional-1"})
assert "deep-secret" not in repr(loaded) and "optional-1" not in repr(loaded)
assert without_secrets("of-a-deep-secret, optional-1") == "***, ***"
"""


def test_what_an_application_makes_of_secrets_is_secret_too(tmp_path: Path, fork_server: ForkServer) -> None:
    """In a process of its own, since every group that is ever defined counts."""
    application = tmp_path / "application.py"
    application.write_text(AN_APPLICATION)
    started = fork_server.start_piped([str(application)], alone(tmp_path))
    assert started.communicate(60) == (b"", b"")


def _values(name: str, *, secret: bool) -> Iterator[str]:
    """Values that hold the mark: of a secret in each form, of any other text as the password of a URL."""
    yield f"https://user:{MARK}@example.org/v1"
    if secret and name == "storage_options":
        yield f'{{"secret_key": "{MARK}", "bucket_name": "papers"}}'
    elif secret and not name.endswith("_url"):
        yield MARK


@pytest.mark.parametrize(("group", "name"), TEXTS, ids=ids)
def test_no_secret_shows_when_settings_are_printed_or_refused(
    group: type[SettingsGroup], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in _values(name, secret=(group, name) in SECRETS):
        monkeypatch.setenv(group.variable(name), value)
        try:
            shown = f"{group.load()!r} {group.load()} {without_secrets(f'it is {MARK}')}"
        except ConfigurationError as error:
            shown = str(error)
        assert MARK not in shown


@pytest.mark.parametrize(("group", "name"), TEXTS, ids=ids)
def test_an_option_takes_no_url_with_a_password(group: type[SettingsGroup], name: str) -> None:
    """Everybody on a machine sees command lines."""
    parser = ArgumentParser()
    config_options.add(parser, group)
    option, value = f"--{name.replace('_', '-')}", f"https://user:{MARK}@example.org/v1"
    if (group, name) in SECRETS:
        assert option not in parser.format_help()
        return
    with pytest.raises(ConfigurationError, match=option) as refused:
        config_options.apply(vars(parser.parse_args([option, value])))
    assert MARK not in str(refused.value)


def test_every_secret_is_given_to_a_program_and_none_is_unknown() -> None:
    declared = frozenset[str]().union(*PROGRAM_SECRETS.values())
    assert declared == secret_variables() | {"FLOWER_BASIC_AUTH"}


def test_every_phase_is_in_the_table() -> None:
    papers = next(flow for flow in application_flows() if flow.name == "papers")
    assert {phase.name for phase in papers.phases} | {HOUSEKEEPING, "web", "beat", "flower"} == set(
        PROGRAM_SECRETS
    )


@pytest.mark.parametrize("program", PROGRAM_SECRETS)
def test_a_program_of_a_fleet_is_given_its_secrets_only(program: str) -> None:
    emptied = environment_of([program])
    assert set(emptied.values()) <= {""}
    assert not set(emptied) & PROGRAM_SECRETS[program]
    assert set(emptied) | PROGRAM_SECRETS[program] >= secret_variables()


def test_only_workers_of_the_phase_that_asks_it_have_the_key_of_the_model() -> None:
    having = {program for program, secrets in PROGRAM_SECRETS.items() if "SLUICE_LLM_API_KEY" in secrets}
    assert having == {"expensive"}
    assert "SLUICE_LLM_API_KEY" not in environment_of(all_phases())


def test_an_application_without_a_table_gives_every_program_everything() -> None:
    assert (
        unneeded(["web"], {})
        == unneeded([], PROGRAM_SECRETS)
        == unneeded(["letters"], PROGRAM_SECRETS)
        == set()
    )


@pytest.mark.parametrize(
    ("command_line", "expected"),
    [
        (["celery", "-A", "project", "worker", "-Q", "prep.high,prep.low"], ("prep",)),
        (["/x/celery/__main__.py", "-A", "x", "worker", "--queues=wrap.low,prep.low"], ("wrap", "prep")),
        (["celery", "worker", "-Qhousekeeping"], ("housekeeping",)),
        (["celery", "worker"], ()),
        (["celery", "worker", "-Q", "letters.high,prep.low"], ()),
        (["celery", "-A", "project", "beat"], ("beat",)),
        (["celery", "-A", "project", "flower"], ("flower",)),
        (["celery", "-A", "project", "inspect", "ping"], ()),
        (["manage.py", "serve", "--port", "1"], ("web",)),
        (["/x/django/__main__.py", "serve"], ("web",)),
        (["/usr/bin/gunicorn", "project.wsgi"], ("web",)),
        (["manage.py", "queue", "serve"], ()),
        (["manage.py", "up"], ()),
        ([], ()),
    ],
)  # fmt: skip
def test_a_command_line_says_which_program_it_starts(
    command_line: list[str], expected: tuple[str, ...]
) -> None:
    assert programs(command_line) == expected


def test_every_name_in_capitals_is_a_setting_somebody_documents() -> None:
    """Others are shown by debug pages and by workers that are asked for their configuration."""
    named = [name for name in vars(project_settings) if name.isupper()]
    documented = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    for name in named:
        ours = name.startswith("SLUICE_") and f"`{name}`" in documented
        assert hasattr(global_settings, name) or OTHER_APPS.fullmatch(name) or ours, name
