"""Two releases of a project side by side: new, removed and renamed tasks, an added step, other limits.

SuperCoopBerlin/tapir#485
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.adopter_project import Project
from tests.acceptance.conftest import MakeEnvironment
from tests.acceptance.processes import Process

TASKS = """
import os
from celery import shared_task
from queuemgr import Done, Flow, LeasedTask, Phase, Step, queued, register_flow

RELEASE = int(os.environ.get("RELEASE", "1"))

@queued(limits={"host:{host}": 5 if RELEASE == 1 else 2})
def send(host: str) -> int:
    return RELEASE

if RELEASE == 1:
    @queued
    def removed() -> int:
        return RELEASE

    @queued
    def named_before(n: int) -> int:
        return n
else:
    @queued
    def fresh(n: int) -> int:
        return RELEASE

    @queued(name="mail.tasks.named_before")
    def named_now(n: int) -> int:
        return n

@shared_task(base=LeasedTask, name="mail.first")
def first(work):
    return Done(context={"first": RELEASE})

@shared_task(base=LeasedTask, name="mail.second")
def second(work):
    return Done(result=RELEASE)

STEPS = (Step("first", "mail.first"), Step("second", "mail.second"))
register_flow(Flow("two", (Phase("default", 0, "waiting", "running", STEPS[:RELEASE]),)))
"""

CALLS_OF_OLD = """
from mail import tasks
tasks.removed.using(key="removed", run_after=3).enqueue()
tasks.named_before.using(key="named", run_after=3).enqueue(7)
tasks.send.using(key="sent").enqueue("a").result(timeout=60)
"""

CALLS_OF_NEW = """
from queuemgr import enqueue
from mail import tasks
for n in range(5):
    tasks.fresh.using(key=f"fresh{n}").enqueue(n)
for n in range(5):
    enqueue("two", f"two{n}")
"""


def read(project: Project, statement: str) -> list[str]:
    """The rows of a statement, each as words."""
    with closing(sqlite3.connect(project.directory / "db.sqlite3")) as link:
        return [" ".join(map(str, row)) for row in link.execute(statement)]


def executions(project: Project) -> list[str]:
    """As `fresh0 done 2`: key, state and result."""
    return read(project, "SELECT key, state, result FROM queuemgr_execution ORDER BY key")


def call(project: Project, release: int, code: str) -> None:
    project.environment["RELEASE"] = str(release)
    project.run("manage.py", "shell", "-v", "0", "-c", code)


def start(project: Project, release: int) -> Process:
    project.environment["RELEASE"] = str(release)
    worker = ("-m", "celery", "-A", "queuemgr", "worker", "-P", "threads", "-c", "2", "-l", "INFO")
    return project.start(f"release{release}", *worker, "-n", f"release{release}@here")


def wait_for(project: Project, *expected: str) -> None:
    until = time.monotonic() + 60
    while not set(expected) <= set(found := executions(project)):
        assert time.monotonic() < until, found
        time.sleep(0.2)


@pytest.mark.slow_proof
def test_two_releases_side_by_side_lose_and_fail_nothing(
    tmp_path: Path, make_environment: MakeEnvironment
) -> None:
    project = Project(tmp_path, make_environment().directory)
    (tmp_path / "mail" / "tasks.py").write_text(TASKS)
    project.run("manage.py", "migrate")
    workers = [start(project, 1)]
    try:
        call(project, 1, CALLS_OF_OLD)
        call(project, 2, CALLS_OF_NEW)
        wait_for(project, *(f"fresh{n} waiting None" for n in range(5)))
        workers.append(start(project, 2))
        wait_for(
            project, "named done 7", "sent done 1", "removed done 1", *(f"fresh{n} done 2" for n in range(5))
        )
        workers.pop(0).stop()
        workers.append(start(project, 1))  # an old one starts again in the middle of the deploy
        wait_until_started(project, 3)
    finally:
        for worker in workers:
            worker.stop()
    assert not [line for line in executions(project) if " done " not in line]
    assert set(read(project, "SELECT outcome FROM queuemgr_attempt")) == {"done"}
    assert read(project, "SELECT max_running FROM queuemgr_limit WHERE name = 'host:*'") == ["2"]


def wait_until_started(project: Project, workers: int) -> None:
    until = time.monotonic() + 60
    while len(read(project, "SELECT id FROM queuemgr_workerstatement")) < workers:
        assert time.monotonic() < until
        time.sleep(0.2)
