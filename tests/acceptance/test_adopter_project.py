"""A new project: startproject, one app, one decorator, one worker; no Redis, no settings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.processes import Process

ROOT = Path(__file__).parents[2]

TASKS = """
from celery import shared_task
from queuemgr import QueuedTask, queued

@queued(limits={"host:{host}": 2}, retries=2)
def send(host: str, subject: str = "hello") -> dict[str, int]:
    return {"sent": len(subject)}

@shared_task(base=QueuedTask)
def add(x, y):
    return x + y

@shared_task
def plain(x):
    return x
"""

CALLS = """
from mail.tasks import add, plain, send
handles = [send.enqueue(f"h{n % 2}", subject="x" * n) for n in range(10)]
print([handle.result(timeout=60)["sent"] for handle in handles])
print(add.delay(2, y=3).get(timeout=60))
plain.delay(1)
"""


class Project:
    """A Django project of one app, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.environment = {
            **inherited, "PYTHONPATH": f"{directory}:{ROOT}", "DJANGO_SETTINGS_MODULE": "shop.settings",
        }  # fmt: skip
        self.run("-m", "django", "startproject", "shop", ".", DJANGO_SETTINGS_MODULE="")
        self.run("manage.py", "startapp", "mail")
        (directory / "mail" / "tasks.py").write_text(TASKS)
        settings = directory / "shop" / "settings.py"
        settings.write_text(settings.read_text() + '\nINSTALLED_APPS += ["mail", "queuemgr"]\n')

    def run(self, *arguments: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.directory, capture_output=True, text=True,
            env={**self.environment, **environment},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start_worker(self, *options: str) -> Process:
        command = (sys.executable, "-W", "ignore", "-m", "celery", "-A", "queuemgr", "worker", *options)
        return Process("worker", command, {**self.environment, "PWD": str(self.directory)},
                       self.directory / "worker.log")  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    yield Project(tmp_path)


def test_the_first_limited_task_of_a_new_project_runs(project: Project) -> None:
    project.run("manage.py", "migrate")
    worker = project.start_worker("-P", "threads", "-c", "4", "-l", "INFO")
    try:
        printed = project.run("manage.py", "shell", "-v", "0", "-c", CALLS)
    finally:
        worker.stop()
    assert printed.splitlines() == [str(list(range(10))), "5"], worker.output
    assert "plain" in worker.output
    assert "database is locked" not in worker.output
