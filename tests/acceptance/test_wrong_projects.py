"""Projects that cannot work say so where they start: in `migrate`, and as a worker starts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.processes import Process

ROOT = Path(__file__).parents[2]
FLOW = """
from queuemgr import queued

@queued
def send(host): return host
"""


class Project:
    """What startproject makes, with one app; `apps` are added to INSTALLED_APPS."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.environment = {**inherited, "PYTHONPATH": f"{directory}:{ROOT}"}
        self.run("-m", "django", "startproject", "shop", ".")
        (directory / "mail").mkdir()
        (directory / "mail" / "__init__.py").touch()
        self.state('INSTALLED_APPS += ["mail", "queuemgr"]')

    def state(self, settings: str) -> None:
        with (self.directory / "shop" / "settings.py").open("a") as file:
            file.write(f"\n{settings}\n")

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "ignore", *arguments], cwd=self.directory, capture_output=True, text=True,
            env={**self.environment, **environment}, check=False,
        )  # fmt: skip

    def start(self, *options: str) -> Process:
        here = str(self.directory)
        command = (sys.executable, "-W", "ignore", "-m", "celery", "--workdir", here, "-A", "queuemgr")
        environment = {**self.environment, "DJANGO_SETTINGS_MODULE": "shop.settings", "PWD": here}
        options = ("worker", "-P", "threads", "-c", "1", "-l", "INFO", *options)
        return Process("worker", (*command, *options), environment, self.directory / "log")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    yield Project(tmp_path)


def test_a_database_of_another_kind_is_refused_before_migrate_makes_a_table(project: Project) -> None:
    engine = project.directory / "mysql"
    engine.mkdir()
    (engine / "base.py").write_text(
        "from django.db.backends.sqlite3.base import DatabaseWrapper as Base\n"
        "class DatabaseWrapper(Base): vendor = 'mysql'\n"
    )
    project.state("DATABASES['default']['ENGINE'] = 'mysql'")
    done = project.run("manage.py", "migrate")
    assert done.returncode and "queuemgr.E011" in done.stderr
    file = project.directory / "db.sqlite3"
    assert not file.exists() or not file.stat().st_size


@pytest.mark.parametrize(
    ("module", "apps", "said"),
    [
        ("", True, "is not set: export DJANGO_SETTINGS_MODULE=shop.settings"),
        ("shop.setings", True, "DJANGO_SETTINGS_MODULE=shop.setings cannot be imported"),
        ("shop.settings", False, "'queuemgr' is not in INSTALLED_APPS"),
    ],
)
def test_celery_says_in_one_line_why_it_cannot_start(
    project: Project, module: str, apps: bool, said: str
) -> None:
    if not apps:
        project.state('INSTALLED_APPS.remove("queuemgr")')
    environment = {"DJANGO_SETTINGS_MODULE": module} if module else {}
    done = project.run("-m", "celery", "-A", "queuemgr", "worker", **environment)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1 and said in done.stderr


@pytest.mark.slow_proof
def test_a_worker_that_can_run_no_step_says_why(project: Project) -> None:
    project.run("manage.py", "migrate")
    said = {
        "no app has a module `flows` or `tasks` (mail)": (),
        "it consumes letters, and the queues of flows are default.high, default.normal": ("-Q", "letters"),
    }
    for sentence, options in said.items():
        worker = project.start(*options)
        try:
            until = time.monotonic() + 60
            while " ready." not in worker.output and worker.alive and time.monotonic() < until:
                time.sleep(0.1)
        finally:
            worker.stop()
        assert sentence in worker.output
        worker.log.unlink()
        (project.directory / "mail" / "tasks.py").write_text(FLOW)
