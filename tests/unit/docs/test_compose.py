"""compose.yaml keeps what its README promises: whole, pinned, bounded, and with no secret in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
from celery.bin.base import CLIContext
from celery.bin.worker import worker as celery_worker

from pipeline.config import PipelineSettings
from project.celery import app as celery_app
from project.program_secrets import PROGRAM_SECRETS
from queuemgr.base.config import (
    AlertSettings,
    LaneSettings,
    ObservabilitySettings,
    QueueSettings,
    WebhookSettings,
)
from queuemgr.base.program_secrets import secret_variables
from queuemgr.flows.flow import HOUSEKEEPING, all_queues
from queuemgr.scheduling.phase_settings import phase_settings_group
from tests import compose_file

SERVICES = compose_file.services()
WORKERS = compose_file.workers()
OURS = [name for name in SERVICES if "build" in SERVICES[name]]
LASTING = [name for name in SERVICES if name != "migrate"]


def options(command: list[str]) -> dict[str, Any]:
    """What Celery's own parser makes of a worker's command; it refuses what it does not know."""
    celery = CLIContext(celery_app, no_color=True, workdir=None)
    return dict(celery_worker.make_context("worker", command[4:], obj=celery).params)


def queues(worker: str) -> list[str]:
    named = options(WORKERS[worker])["queues"]
    return named.split(",") if isinstance(named, str) else list(named)


def seconds(text: str) -> float:
    unit = {"s": 1, "m": 60}[text[-1]]
    return float(text[:-1]) * unit


def compose_command() -> list[str] | None:
    """A compose that can read the file here; it needs no engine for that."""
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    docker = shutil.which("docker")
    if docker and subprocess.run([docker, "compose", "version"], capture_output=True).returncode == 0:
        return [docker, "compose"]
    return None


def read_by_compose(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = compose_command()
    if command is None:
        pytest.skip("no docker-compose here")
    files = ["--file", str(compose_file.FILE), "--env-file", str(compose_file.EXAMPLE)]
    return subprocess.run(
        [*command, *files, "config", "--quiet"],
        env={"PATH": os.environ["PATH"], **environment}, capture_output=True, text=True,
    )  # fmt: skip


def test_compose_accepts_the_file():
    read = read_by_compose(compose_file.example_names())
    assert read.returncode == 0, read.stderr


def test_compose_refuses_the_file_before_the_secrets_are_filled_in():
    read = read_by_compose({})
    assert read.returncode != 0
    assert "set it in compose/.env" in read.stderr


def test_nothing_starts_while_a_secret_is_missing():
    for missing in compose_file.example_names():
        names = compose_file.example_names()
        del names[missing]
        with pytest.raises(KeyError, match=missing):
            for service in SERVICES.values():
                compose_file.environment(service, names)


def test_no_secret_is_written_down_or_has_a_default():
    text = compose_file.FILE.read_text()
    named = re.findall(r"\$\{(\w*(?:PASSWORD|SECRET|KEY|TOKEN)\w*)(:[^}]*)?\}", text)
    assert {name for name, _ in named} == {
        "POSTGRES_PASSWORD",
        "BROKER_PASSWORD",
        "DJANGO_SECRET_KEY",
        "FLOWER_PASSWORD",
        "SLUICE_METRICS_TOKEN",
        "GRAFANA_PASSWORD",
    }
    assert all(rest.startswith(":?") for _, rest in named)
    stated = [
        v
        for s in SERVICES.values()
        for n, v in s.get("environment", {}).items()
        if re.search("PASSWORD|SECRET|API_KEY|TOKEN", n)
    ]
    assert stated
    assert all(value is None or value.startswith("${") for value in stated)


def test_workers_cover_every_queue_once_for_its_phase_and_high_work_once_more():
    served = Counter(queue for worker in WORKERS for queue in queues(worker))
    high = [queue for queue in all_queues() if queue.endswith(".high")]
    assert served == Counter([*all_queues(), *high, HOUSEKEEPING])
    assert queues("worker-high") == high
    assert queues("worker-housekeeping") == [HOUSEKEEPING]


@pytest.mark.parametrize("phase", ["prep", "expensive", "wrap"])
def test_each_phase_has_a_worker_of_its_own(phase: str):
    assert queues(f"worker-{phase}") == [q for q in all_queues() if q.startswith(f"{phase}.")]


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_is_a_plain_celery_command(name: str):
    worker = options(WORKERS[name])
    assert worker["hostname"] == f"{name.removeprefix('worker-')}@{gethostname()}"
    assert worker["concurrency"] >= 1
    assert worker["task_events"]


@pytest.mark.parametrize("name", WORKERS)
def test_a_health_check_asks_for_its_own_worker(name: str):
    *_, script, worker = compose_file.health_check(SERVICES[name])
    assert (compose_file.ROOT / script).exists()
    assert options(WORKERS[name])["hostname"] == f"{worker}@{gethostname()}"


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_is_given_longer_to_stop_than_its_steps(name: str):
    grace = float(SERVICES[name]["environment"]["SLUICE_SHUTDOWN_GRACE"])
    assert grace == QueueSettings.model_fields["shutdown_grace"].default
    assert seconds(SERVICES[name]["stop_grace_period"]) >= grace + 10


@pytest.mark.parametrize("name", LASTING)
def test_every_long_running_service_has_a_health_check_and_restarts(name: str):
    assert SERVICES[name]["healthcheck"]["test"]
    assert SERVICES[name]["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", SERVICES)
def test_memory_is_bounded(name: str):
    assert re.fullmatch(r"\d+[mg]", SERVICES[name]["mem_limit"])


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned_to_a_major_version(name: str):
    image = SERVICES[name]["image"].replace("${SLUICEGATE_TAG:-", "").rstrip("}")
    assert re.search(r":v?\d", image), image


def test_migration_runs_once_before_the_services_that_need_it():
    assert SERVICES["migrate"]["restart"] == "no"
    for name in set(OURS) - {"migrate"}:
        waits_for = SERVICES[name]["depends_on"]["migrate"]
        assert waits_for == {"condition": "service_completed_successfully"}


def test_only_services_with_a_login_publish_ports_and_only_locally():
    published = {name: s["ports"] for name, s in SERVICES.items() if "ports" in s}
    assert set(published) == {"web", "flower", "grafana"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)
    assert all(SERVICES[name]["networks"] == ["inside"] for name in ("db", "broker"))


def test_flower_requires_a_login_and_is_read_only():
    env = compose_file.environment(SERVICES["flower"], {**compose_file.example_names()})
    assert env["FLOWER_BASIC_AUTH"] == "filled-in:filled-in"
    assert env["FLOWER_READ_ONLY"] == "true"
    assert "FLOWER_UNAUTHENTICATED_API" not in env


@pytest.mark.parametrize("name", OURS)
def test_our_containers_run_with_minimal_privileges(name: str):
    service = SERVICES[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", OURS)
def test_every_process_receives_every_setting(name: str):
    groups = (
        QueueSettings, phase_settings_group(), LaneSettings, ObservabilitySettings, WebhookSettings,
        AlertSettings,
        PipelineSettings,
    )  # fmt: skip
    configure = {group.variable(field) for group in groups for field in group.model_fields}
    passed_on = set(SERVICES[name]["environment"])
    assert configure - secret_variables() <= passed_on


def programs_of(service: str) -> list[str]:
    """The programs of the table of secrets that a service runs."""
    phases = [queue.partition(".")[0] for queue in queues(service)] if service in WORKERS else [service]
    return list(dict.fromkeys(phases))


@pytest.mark.parametrize("name", [name for name in OURS if name != "migrate"])
def test_a_service_is_given_the_secrets_it_needs_and_no_other(name: str):
    needed = {secret for program in programs_of(name) for secret in PROGRAM_SECRETS[program]}
    given = set(SERVICES[name]["environment"]) & (secret_variables() | {"FLOWER_BASIC_AUTH"})
    assert given == needed - {"PGPASSWORD"}  # DATABASE_URL holds the password


def test_migrating_is_given_the_database_and_no_key_of_a_service():
    assert set(SERVICES["migrate"]["environment"]) & secret_variables() == {
        "DATABASE_URL", "DJANGO_SECRET_KEY",
    }  # fmt: skip


def test_the_image_runs_unprivileged_and_installs_the_tested_versions():
    text = (Path(compose_file.ROOT) / "compose" / "Dockerfile").read_text()
    last = text.rpartition("\nFROM ")[2]
    assert last.startswith("python:3.12.14-slim")
    assert "\nUSER sluice\n" in last
    assert "locks/install.sh /tools image /venv" in text
    assert not re.search(r"^(ARG|ENV) .*(PASSWORD|SECRET|KEY)", text, re.MULTILINE)


def test_every_image_is_named_by_its_version_and_its_digest():
    dockerfile = (Path(compose_file.ROOT) / "compose" / "Dockerfile").read_text()
    images = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert len(set(images)) == 1
    images += [service["image"] for service in SERVICES.values() if "build" not in service]
    assert len(images) == 6
    assert all(re.fullmatch(r"[\w/]+:v?\d+\.\d[\w.-]*@sha256:[0-9a-f]{64}", image) for image in images)


def test_the_image_says_under_what_licences_it_is():
    assert "licences.py > /venv/licences.txt" in (compose_file.FILE.parent / "Dockerfile").read_text()
    program = compose_file.FILE.parent / "licences.py"
    told = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True).stdout
    table, notice, texts = told.partition("The packages below")[0], *told.partition("The packages below")[1:]
    assert re.search(r"^Django \S+: BSD-3-Clause$", table, re.MULTILINE)
    assert len(table.splitlines()) > 100
    listed = texts.partition("\n====")[0]
    assert notice
    assert all(
        f"\n{name} " in listed for name in ("psycopg", "psycopg-binary", "pycountry", "certifi", "tqdm")
    )
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in texts


def test_the_web_service_can_be_put_behind_a_proxy_that_speaks_tls():
    passed_on = SERVICES["web"]["environment"]
    assert {"SLUICE_BEHIND_TLS_PROXY", "SLUICE_TRUSTED_ORIGINS", "SLUICE_ALLOWED_HOSTS"} <= set(passed_on)


def test_secrets_of_a_checkout_do_not_get_into_the_image():
    ignored = (compose_file.ROOT / ".dockerignore").read_text().splitlines()
    assert {"**/.env", "var", ".git", ".venv"} <= set(ignored)
