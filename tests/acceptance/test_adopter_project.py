"""A new project with our wheel: startproject, one app, one decorator, one worker; no Redis, no settings."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.acceptance.adopter_project import Project, wait_until
from tests.acceptance.conftest import MakeEnvironment, MakeWarmEnvironment

CALLS = """
from mail.tasks import add, send
handles = [send.enqueue(f"h{n % 2}", subject="x" * n) for n in range(10)]
print([handle.result(timeout=60)["sent"] for handle in handles])
print(add.delay(2, y=3).get(timeout=60))
"""


@pytest.fixture
def project(tmp_path: Path, make_environment: MakeEnvironment) -> Project:
    return Project(tmp_path, make_environment().directory)


@pytest.fixture(scope="module")
def migrated_project(
    tmp_path_factory: pytest.TempPathFactory, make_warm_environment: MakeWarmEnvironment
) -> Project:
    project = Project(tmp_path_factory.mktemp("migrated"), make_warm_environment().directory)
    project.run("manage.py", "migrate", "-v", "0")
    return project


@pytest.mark.slow_proof
def test_the_first_limited_task_of_a_new_project_runs(project: Project) -> None:
    """One worker migrates the empty database; another one is started in Celery's own way."""
    celery = ("-m", "celery", "-A", "queuemgr", "worker", "-P", "threads", "-c", "4", "-l", "INFO")
    workers = [project.start("ours", "manage.py", "worker", "--migrate")]
    try:
        wait_until("it is ready", lambda: "ready." in workers[0].output)
        workers.append(project.start("celerys", *celery))
        printed = project.run("manage.py", "shell", "-v", "0", "-c", CALLS)
        wait_until("the other is ready, too", lambda: "ready." in workers[1].output)
    finally:
        for worker in workers:
            worker.stop()
    output = "".join(worker.output for worker in workers)
    assert printed.splitlines() == [str(list(range(10))), "5"], output
    assert "Applying queuemgr.0001" in workers[0].output
    assert "database is locked" not in output
    assert "Traceback" not in output


def test_commands_of_a_project_without_settings_of_ours_know_their_place(migrated_project: Project) -> None:
    """No command names the reference application, or a setting that nobody stated."""
    project = migrated_project
    command = shlex.split(project.run("manage.py", "worker", "--print"))
    assert command[1:5] == ["-m", "celery", "-A", "queuemgr"]
    assert command[command.index("--queues") + 1] == "default.high,default.normal,default.low,housekeeping"
    said = project.run("manage.py", "doctor")
    assert f"{project.directory}/.sluicegate is writable" in said
    assert "BAD" not in said
    assert (project.directory / ".sluicegate" / ".gitignore").read_text() == "*\n"


FLOW = """
from queuemgr import Flow, Phase, Step, register_flow
register_flow(Flow("letters", (Phase("write", 0, "waiting", "writing", (Step("write", "mail.write"),)),)))
"""

WEB_PROCESS = """
import json
import shop.wsgi
from queuemgr.flows.flow import application_flows, all_phases
from queuemgr.scheduling import limit_rows
print(json.dumps([sorted(flow.name for flow in application_flows()), sorted(limit_rows.stated())]))
"""


def test_every_process_knows_the_flows_of_apps_and_none_of_another_application(
    migrated_project: Project,
) -> None:
    """A web server, a shell and a command import what Celery would import in a worker alone."""
    project, flows = migrated_project, migrated_project.directory / "mail" / "flows.py"
    flows.write_text(f"from mail import tasks\n{FLOW}")
    try:
        for process in (("-c", WEB_PROCESS), ("manage.py", "shell", "-v", "0", "-c", WEB_PROCESS)):
            names, limits = json.loads(project.run(*process))
            assert names == ["letters", "mail.tasks.add", "mail.tasks.send"]
            assert "host:*" in limits and not {"resolver", "llm", "engine"} & {
                n.split(":")[0] for n in limits
            }
        said = project.run("manage.py", "queue", "enqueue", "--flow", "nobody", "--count", "1", code=3)
        assert "registered: letters, mail.tasks.add, mail.tasks.send" in said
    finally:
        flows.unlink()


def test_a_fleet_of_one_command_drains_what_was_enqueued(
    tmp_path: Path, make_environment: MakeEnvironment
) -> None:
    project = Project(tmp_path, make_environment("local").directory)
    project.run("manage.py", "migrate", "-v", "0")
    project.run("manage.py", "shell", "-v", "0", "-c", 'from mail.tasks import send; send.enqueue("a")')
    said = project.run("manage.py", "queue", "run", "--drain", "--workers", "2")
    assert "default 1" in said
    assert "starting " in said and "stopping" in said


def test_a_command_that_needs_an_extra_says_which(migrated_project: Project) -> None:
    for extra, command in (("web", ["serve"]), ("local", ["queue", "run", "--drain"])):
        said = migrated_project.run("manage.py", *command, code=3)
        assert f"pip install 'sluicegate[{extra}]'" in said
        assert "Traceback" not in said
