"""Processes import no pages, nor what only others need, and the queue works in a project that leaves the app
`queuemgr.web` out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.cli.commands import REPOSITORY
from tests.shell import alone

START_A_WORKER = """
import json, sys
from project.celery import app
app.loader.import_default_modules()
app.finalize()
print(json.dumps({"tasks": sorted(app.tasks), "modules": sorted(n for n, m in sys.modules.items() if m)}))
"""

RUN_COMMANDS = """
import json, sys
from io import StringIO
import django
from django.core.management import call_command
django.setup()
call_command("migrate", verbosity=1)
call_command("queue", "enqueue", "--flow", "probe")
out = StringIO()
call_command("queue", "stats", "--json", stdout=out)
modules = sorted(name for name, module in sys.modules.items() if module)
print(json.dumps({"total": json.loads(out.getvalue())["total"], "modules": modules}))
"""

RUN_A_COMMAND = """
import json, os, sys
from io import StringIO
os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
from django.core.management import execute_from_command_line
sys.stdout = StringIO()
try:
    execute_from_command_line(["manage.py", "queue", "stats"])
except SystemExit:
    pass  # the database has no tables
sys.stdout = sys.__stdout__
print(json.dumps({"modules": sorted(n for n, m in sys.modules.items() if m)}))
"""

NOT_FOR_COMMANDS = (
    "httpx", "redis", "kombu.transport.redis", "numpy", "pypdf", "pypdfium2", "unfold.admin", "ninja",
    "rich.console",
    "opentelemetry.sdk", "pipeline.tasks", "pipeline.steps.extract.extract", "pipeline.steps.ocr",
    "pipeline.steps.pdf", "pipeline.steps.http.client", "queuemgr.web.admin", "queuemgr.web.api",
    "queuemgr.worker.heartbeat", "queuemgr.worker.housekeeping", "queuemgr.operations.bulk",
)  # fmt: skip
"""What takes long to import, and is for workers, web servers, or what draws on a terminal."""

NOT_FOR_WORKERS = ("unfold.admin", "ninja", "rich.console", "queuemgr.web.admin", "queuemgr.cli", "sumy")

SETTINGS = """
from project.settings import *
PAGES = {"pipeline.web", "queuemgr.web", "queuemgr.web.ninja_files.NinjaFiles", "unfold", "project"}
INSTALLED_APPS = [app for app in INSTALLED_APPS if app not in PAGES]
MIDDLEWARE = [name for name in MIDDLEWARE if not name.startswith("queuemgr.web")]
ROOT_URLCONF = "urls_without_pages"
del UNFOLD
"""


def run(script: str, directory: Path, **variables: str) -> tuple[str, Any]:
    """Run a script in a new process; returns what it printed before its last line, and that as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, text=True, capture_output=True, check=False,
        env=alone(directory, PYTHONPATH=f"{directory}:{REPOSITORY}", **variables), timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    printed, _, last = done.stdout.strip().rpartition("\n")
    return printed, json.loads(last)


def test_a_worker_imports_no_pages(tmp_path: Path) -> None:
    _, started = run(START_A_WORKER, tmp_path)
    assert "queuemgr.tick" in started["tasks"]
    assert imported("queuemgr.web", started) <= {
        "queuemgr.web",
        "queuemgr.web.apps",
        "queuemgr.web.ninja_files",
    }
    assert [name for name in NOT_FOR_WORKERS if imported(name, started)] == []


def test_the_queue_works_without_the_app_of_pages(tmp_path: Path) -> None:
    (tmp_path / "settings_without_pages.py").write_text(SETTINGS)
    (tmp_path / "urls_without_pages.py").write_text("urlpatterns = []")
    printed, ended = run(RUN_COMMANDS, tmp_path, DJANGO_SETTINGS_MODULE="settings_without_pages")
    assert ended["total"] == 1
    assert "Roles made: viewer, operator, admin" in printed
    assert not imported("queuemgr.web", ended) | imported("ninja", ended)


def test_a_command_imports_nothing_of_steps_brokers_and_workers(tmp_path: Path) -> None:
    _, ended = run(RUN_A_COMMAND, tmp_path)
    assert [name for name in NOT_FOR_COMMANDS if imported(name, ended)] == []


def imported(package: str, process: dict[str, Any]) -> set[str]:
    return {name for name in process["modules"] if name.startswith(package)}
