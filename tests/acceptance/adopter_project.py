"""A new Django project of somebody else's, who installed our wheel: made by `django-admin startproject`."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.processes import Process

TASKS = """
from celery import shared_task
from queuemgr import QueuedTask, queued

@queued(limits={"host:{host}": 2}, retries=2)
def send(host: str, subject: str = "hello") -> dict[str, int]:
    return {"sent": len(subject)}

@shared_task(base=QueuedTask)
def add(x, y):
    return x + y
"""


class Project:
    """The project `shop` with its app `mail`, in a directory of its own; it runs in a virtual environment."""

    def __init__(self, directory: Path, environment: Path, tasks: str = TASKS) -> None:
        self.directory, self.python = directory, environment / "bin" / "python"
        kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
        self.environment = {
            **kept, "PATH": f"{environment / 'bin'}:/usr/bin:/bin", "PYTHONWARNINGS": "ignore",
        }  # fmt: skip
        self.run("-m", "django", "startproject", "shop", ".")
        self.environment["DJANGO_SETTINGS_MODULE"] = "shop.settings"
        self.run("manage.py", "startapp", "mail")
        (directory / "mail" / "tasks.py").write_text(tasks)
        self.state('INSTALLED_APPS += ["mail", "queuemgr"]')

    def state(self, settings: str) -> None:
        """Add these lines to the settings."""
        with (self.directory / "shop" / "settings.py").open("a") as file:
            file.write(f"\n{settings}\n")

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run Python with these arguments; returns what it printed, with its errors where it failed."""
        done = subprocess.run(
            [self.python, *arguments], cwd=self.directory, capture_output=True, text=True,
            env=self.environment,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr

    def start(self, name: str, *arguments: str) -> Process:
        """Start Python with these arguments, in the project's directory."""
        command = ("/usr/bin/env", "-C", str(self.directory), str(self.python), *arguments)
        return Process(name, command, self.environment, self.directory / f"{name}.log")


def wait_until(what: str, true: Callable[[], object], within: float = 150) -> None:
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, f"not within {within:g} s: {what}"
        time.sleep(0.05)
