"""`python -m bench.startup`: processor and wall time until a command has ended, a worker is ready, and
`manage.py up` speaks, is ready and has stopped.

A process that only sets Django up and a worker of plain Celery run in turn with ours, round by round. Code is
compiled before the clock. Processor time is that of the process; of `up`, of all its programs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console

from bench import command_line
from bench.child import ROOT
from bench.contestants import CELERY, broker
from bench.measures import Aim, spread, table

BARE = """
import django
from django.conf import settings
apps = ("admin.apps.SimpleAdminConfig", "auth", "contenttypes", "sessions", "messages", "staticfiles")
settings.configure(INSTALLED_APPS=["django.contrib." + app for app in apps])
django.setup()
"""
MANAGE = [sys.executable, "manage.py"]
PATIENCE = 120
"""Seconds until what says nothing is given up."""

PROCESSOR = "s of processor"
AIMS = {
    "queue stats": {PROCESSOR: Aim(0.5)},
    "worker ready": {PROCESSOR: Aim(1.2)},
    "up: first line": {"s": Aim(1)},
    "up: ready": {"s": Aim(6)},
}


@dataclass(frozen=True)
class Took:
    """Seconds on the clock, and of processor."""

    wall: float
    processor: float


Figures = dict[str, list[Took]]


def main() -> None:
    parser = command_line.parser("bench.startup", __doc__, "--rounds 5", "--only worker", "--json")
    parser.add_argument("--rounds", type=int, default=5, help="of each (default 5)")
    parser.add_argument("--only", choices=("command", "worker", "up"), help="one of the three alone")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    figures: Figures = {}
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        root = Path(folder)
        with broker(root / "redis") as redis:
            environment = surroundings(root / "data", redis.url)
            subprocess.run([*MANAGE, "migrate", "--verbosity", "0"], cwd=ROOT, env=environment, check=True)
            for number in range(options.rounds):
                for name, took in one_round(options.only, environment, root / f"up{number}"):
                    figures.setdefault(name, []).append(took)
    report(figures, as_json=options.json)


def surroundings(data: Path, broker_url: str) -> dict[str, str]:
    """An environment with a data directory of its own, in which code that is compiled is kept."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("SLUICE_", "DATABASE_"))}
    ours.pop("PYTHONDONTWRITEBYTECODE", None)
    return {
        **ours, "BROKER_URL": broker_url, "SLUICE_DATA_DIR": str(data), "PYTHONUNBUFFERED": "1",
        "DJANGO_SETTINGS_MODULE": "project.settings", "PLAIN_MARKS": os.devnull, "PYTHONWARNINGS": "ignore",
    }  # fmt: skip


def one_round(only: str | None, environment: Mapping[str, str], home: Path) -> Iterator[tuple[str, Took]]:
    if only in (None, "command"):
        yield "bare Django", until_its_end([sys.executable, "-c", BARE], environment)
        yield "queue stats", until_its_end([*MANAGE, "queue", "stats"], environment)
    if only in (None, "worker"):
        options = ["-P", "threads", "-c", "8", "-l", "INFO", "--without-gossip", "--without-mingle"]
        plain = [*CELERY, "-A", "bench.plain", "worker", "-Q", "plain", *options]
        ours = [*CELERY, "-A", "project", "worker", *options]
        yield "plain Celery worker ready", until_ready(plain, environment)
        yield "worker ready", until_ready(ours, environment)
    if only in (None, "up"):
        private = {name: value for name, value in environment.items() if name != "BROKER_URL"}
        yield from of_a_run({**private, "SLUICE_DATA_DIR": str(home)})


def until_its_end(command: list[str], environment: Mapping[str, str]) -> Took:
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return Took(time.monotonic() - began, used.ru_utime + used.ru_stime)


def until_ready(command: list[str], environment: Mapping[str, str]) -> Took:
    """Until a worker logs that it is ready."""
    with speaking(command, environment) as (process, wait_for):
        took = wait_for(lambda line: line.rstrip().endswith(" ready."))
        process.send_signal(signal.SIGTERM)
    return took


def of_a_run(environment: Mapping[str, str]) -> Iterator[tuple[str, Took]]:
    with speaking([*MANAGE, "up"], environment) as (process, wait_for):
        yield "up: first line", wait_for(lambda line: bool(line.strip()))
        yield "up: ready", wait_for(lambda line: line.startswith("admin "))
        wait_for(lambda line: "Ctrl-C stops" in line)
        programs = _all_of(process.pid)
        used, began = _processor(programs), time.monotonic()
        process.send_signal(signal.SIGINT)
        said = wait_for(lambda line: bool(line.strip()), since=began)
        yield "up: first line of its stop", Took(said.wall, 0)
        process.wait(PATIENCE)
        yield "up: stopped", Took(time.monotonic() - began, used)


@contextmanager
def speaking(
    command: list[str], environment: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[str], Callable[..., Took]]]:
    """A program and a function that reads what it says up to such a line."""
    began = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )

    def wait_for(wanted: Callable[[str], bool], since: float = began) -> Took:
        assert process.stdout is not None
        for line in process.stdout:
            if wanted(line):
                return Took(time.monotonic() - since, _processor(_all_of(process.pid)))
        raise SystemExit(f"{command} ended with {process.wait(PATIENCE)}")

    try:
        yield process, wait_for
        process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()


def _all_of(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def _processor(programs: list[psutil.Process]) -> float:
    used = 0.0
    for program in programs:
        with suppress(psutil.NoSuchProcess):
            times = program.cpu_times()
            used += times.user + times.system
    return used


def report(figures: Figures, *, as_json: bool) -> None:
    if as_json:
        found = {name: [[t.wall, t.processor] for t in took] for name, took in figures.items()}
        print(json.dumps(found))
        return
    rows = []
    for name, took in figures.items():
        values = {"s": spread([t.wall for t in took]), PROCESSOR: spread([t.processor for t in took])}
        verdicts = [f"{aim.verdict(values[unit].median)}" for unit, aim in AIMS.get(name, {}).items()]
        rows.append([name, str(values[PROCESSOR]), str(values["s"]), " ".join(verdicts)])
    Console(width=120).print(table("Start-up: medians", ["", PROCESSOR, "s", ""], rows))


if __name__ == "__main__":
    main()
