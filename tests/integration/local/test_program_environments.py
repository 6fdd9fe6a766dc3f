"""Programs of a fleet as they run: each finds the secrets that the table gives it, and no other."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from project.program_secrets import PROGRAM_SECRETS
from queuemgr.base.program_secrets import environment_of, secret_variables
from queuemgr.local.supervisor import Program, Supervisor
from queuemgr.management.commands import worker
from tests.fork_server import ForkServer
from tests.shell import alone

EVERY = sorted(secret_variables().union(*PROGRAM_SECRETS.values()))
COMMANDS = {
    "web": ["manage.py", "serve"],
    "flower": ["celery", "-A", "project", "flower"],
    "beat": ["celery", "-A", "project", "beat"],
    **{phase: ["celery", "worker", "-Q", f"{phase}.low"] for phase in ("prep", "expensive", "wrap")},
    "housekeeping": ["celery", "worker", "-Q", "housekeeping"],
}
TELL = (
    "import json, os, sys; from pathlib import Path;"
    "told = Path(sys.argv[1]); told.with_suffix('.part').write_text(json.dumps(dict(os.environ)));"
    "told.with_suffix('.part').rename(told); import time; time.sleep(60)"
)
LOOK = """
import json, os, sys
from tests.fork_server import read_settings_anew
sys.argv = json.loads(sys.argv[1])
read_settings_anew()
from django.conf import settings
url = settings.DATABASES["default"]["NAME"], settings.CELERY_BROKER_URL
from queuemgr.base.secret_environment import for_same_program
print(json.dumps(for_same_program()))
"""


def marked(name: str) -> str:
    """A value that settings accept."""
    if name == "DATABASE_URL":
        return "postgres://user:marked-password@127.0.0.1:1/name"
    if name == "SLUICE_WEBHOOK_SECRETS":
        return f"told=whsec_{'marked00' * 5}"
    if name == "EMAIL_URL":
        return "smtp://u:marked-password@127.0.0.1:1"
    if name == "SLUICE_ALERT_DESTINATIONS":
        return "ops=https://127.0.0.1:1/marked"
    if name == "BROKER_URL":
        return "redis://:marked-password@127.0.0.1:1/0"
    return json.dumps({"secret_key": "marked"}) if name.endswith("OPTIONS") else f"marked-secret-of-{name}"


def having(environment: dict[str, str]) -> set[str]:
    return {name for name in EVERY if environment.get(name) == marked(name)}


def test_a_supervised_program_is_given_its_secrets_only_and_none_is_on_a_command_line_or_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in EVERY:
        monkeypatch.setenv(name, marked(name))
    files = {name: tmp_path / f"{name}.json" for name in PROGRAM_SECRETS}
    programs = [
        Program(name, [sys.executable, "-c", TELL, str(file)], environment=environment_of([name]))
        for name, file in files.items()
    ]
    with Supervisor(tmp_path, programs) as supervisor:
        deadline = time.monotonic() + 60
        while not all(file.exists() for file in files.values()):
            supervisor.check()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert supervisor._process is not None
        shown = Path(f"/proc/{supervisor._process.pid}")
        at_its_start = (shown / "environ").read_text() + (shown / "cmdline").read_text()
    told = {name: having(json.loads(file.read_text())) for name, file in files.items()}
    assert told == PROGRAM_SECRETS
    assert "PATH=" in at_its_start and "marked" not in at_its_start
    assert "marked" not in (tmp_path / "supervisord.conf").read_text()


def test_a_secret_that_is_made_for_a_program_is_in_its_memory_and_in_no_file(tmp_path: Path) -> None:
    """As the login of Flower that `up` makes."""
    login, files = "flower:marked%login", {name: tmp_path / f"{name}.json" for name in PROGRAM_SECRETS}
    stated = {"flower": {"FLOWER_BASIC_AUTH": login, "OTHER": "a%b"}}
    programs = [
        Program(name, [sys.executable, "-c", TELL, str(file)],
                environment={**environment_of([name]), **stated.get(name, {})})
        for name, file in files.items()
    ]  # fmt: skip
    with Supervisor(tmp_path, programs) as supervisor:
        deadline = time.monotonic() + 60
        while not all(file.exists() for file in files.values()):
            supervisor.check()
            assert time.monotonic() < deadline
            time.sleep(0.05)
    told = {name: json.loads(file.read_text()) for name, file in files.items()}
    assert {name for name in told if told[name].get("FLOWER_BASIC_AUTH")} == {"flower"}
    assert (told["flower"]["FLOWER_BASIC_AUTH"], told["flower"]["OTHER"]) == (login, "a%b")
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path not in files.values()]
    assert (tmp_path / "supervisord.conf") in left
    assert [path for path in left if "marked" in path.read_text(errors="replace")] == []


@pytest.mark.parametrize("program", PROGRAM_SECRETS)
def test_a_program_started_by_hand_with_every_secret_keeps_its_own_only(
    tmp_path: Path, fork_server: ForkServer, program: str
) -> None:
    environment = alone(tmp_path, **{name: marked(name) for name in EVERY})
    started = fork_server.start_piped(["-c", LOOK, json.dumps(COMMANDS[program])], environment)
    out, errors = started.communicate(60)
    kept = having(json.loads(out))
    assert kept == PROGRAM_SECRETS[program], errors


def test_a_command_of_a_person_has_every_secret(tmp_path: Path, fork_server: ForkServer) -> None:
    environment = alone(tmp_path, **{name: marked(name) for name in EVERY})
    command = json.dumps(["manage.py", "queue", "stats"])
    out, errors = fork_server.start_piped(["-c", LOOK, command], environment).communicate(60)
    assert having(json.loads(out)) == set(EVERY), errors


@pytest.mark.parametrize(
    ("phases", "programs"),
    [
        ([], ["prep", "expensive", "wrap"]),
        (["prep"], ["prep"]),
        (["wrap", "expensive"], ["wrap", "expensive"]),
    ],
)
def test_a_worker_command_hands_on_the_secrets_of_its_phases(
    phases: list[str], programs: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Callable[..., object]
) -> None:
    for name in EVERY:
        monkeypatch.setenv(name, marked(name))
    became: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda path, command, environment: became.append(environment))
    worker.Command().handle(phases=phases, pool="threads", name="steps", housekeeping=False, print=False,
                            explain=False, json=False)  # fmt: skip
    [environment] = became
    needed = set().union(*(PROGRAM_SECRETS[program] for program in programs))
    assert having(environment) == needed
    assert not (set(EVERY) - needed) & environment.keys()
