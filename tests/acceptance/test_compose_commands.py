"""The commands of compose.yaml, run as they stand: they come up, do their part, and stop cleanly.

The same words and the same variables; only the database, the broker, the data directory and the
ports are this test's own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from queuemgr.flows.flow import all_queues
from queuemgr.local.private_servers import free_port
from tests import compose_file
from tests.acceptance.fleet import Fleet
from tests.acceptance.processes import Process
from tests.fork_server import ForkServer

pytestmark = pytest.mark.only_on("postgres", why="compose.yaml has PostgreSQL")

NOT_OURS = ("db", "broker", "prometheus", "grafana")
LOGIN = {"FLOWER_USER": "someone", "FLOWER_PASSWORD": "only-for-this-test"}
WORKERS = compose_file.workers()


@dataclass
class Composed:
    """The services of compose.yaml, running here."""

    fleet: Fleet
    server: ForkServer
    processes: dict[str, Process]
    environments: dict[str, dict[str, str]]

    def run(self, service: str, words: list[str]) -> int:
        """Run a command beside a service, as its health check is; returns the exit code."""
        return self.start(f"{service}-run", service, words).wait(60)

    def start(self, name: str, service: str, words: list[str]) -> Process:
        log = self.fleet.directory / f"{name}.log"
        return Process(name, _for_fork_server(words), self.environments[service], log, self.server)

    def is_healthy(self, service: str) -> bool:
        return self.run(service, compose_file.health_check(SERVICES[service])) == 0

    def url(self, service: str, port: str, path: str) -> str:
        return f"http://127.0.0.1:{self.environments[service][port]}{path}"


SERVICES = compose_file.services()
LASTING = [name for name in SERVICES if name not in (*NOT_OURS, "migrate")]


@pytest.fixture(scope="module")
def composed(make_shared_fleet: Callable[..., Fleet], fork_server: ForkServer) -> Iterator[Composed]:
    fleet = make_shared_fleet()
    given = {**compose_file.example_names(), **LOGIN}
    own = {
        "DATABASE_URL": "",
        **fleet.environment,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    environments = {
        name: {**compose_file.environment(service, given), **own, **_ports(service)}
        for name, service in SERVICES.items()
        if name not in NOT_OURS
    }
    composed = Composed(fleet, fork_server, {}, environments)
    assert composed.run("migrate", compose_file.command(SERVICES["migrate"])) == 0
    for name in LASTING:
        process = composed.start(name, name, compose_file.command(SERVICES[name]))
        composed.processes[name] = process
        fleet.processes.append(process)
    fleet.wait_for_workers(*(composed.processes[name] for name in WORKERS))
    yield composed


def _for_fork_server(words: list[str]) -> list[str]:
    """The same command in words the fork server takes, where it is one of Python's."""
    program, *rest = words
    if program in ("python", "python3"):
        return [sys.executable, *rest]
    return [sys.executable, "-m", *words] if program == "celery" else words


def _ports(service: dict[str, Any]) -> dict[str, str]:
    """A free port for each variable that names one."""
    return {n: str(free_port()) for n in service["environment"] if n in ("PORT", "FLOWER_PORT")}


def test_every_worker_registers_with_the_queues_of_its_command(composed: Composed):
    rows = composed.fleet.database.rows("SELECT name, queues FROM queuemgr_worker")
    signed_on = {
        name.partition("@")[0]: json.loads(queues) if isinstance(queues, str) else queues
        for name, queues in rows
    }
    assert set(signed_on) == {name.removeprefix("worker-") for name in WORKERS}
    assert sorted({queue for queues in signed_on.values() for queue in queues}) == sorted(all_queues())
    assert signed_on["housekeeping"] == []


@pytest.mark.parametrize("name", LASTING)
def test_its_health_check_passes(composed: Composed, name: str):
    composed.fleet.wait_until(f"{name} healthy", lambda: composed.is_healthy(name))


def test_the_health_check_of_a_missing_worker_fails(composed: Composed):
    assert composed.run("worker-prep", ["python", "compose/worker_alive.py", "nobody"]) != 0


def test_work_of_every_phase_and_priority_gets_done(composed: Composed):
    for phase, priority in (("prep", "low"), ("expensive", "normal"), ("wrap", "high")):
        composed.fleet.enqueue(2, phase=phase, priority=priority, key_prefix=f"work-{phase}")
    composed.fleet.wait_until_done(6, "work-%")


def test_beat_sends_the_tick_and_the_housekeeping_worker_does_it(composed: Composed):
    ticks = (
        "SELECT COUNT(*) FROM django_celery_results_taskresult "
        "WHERE task_name = 'queuemgr.tick' AND status = 'SUCCESS'"
    )
    composed.fleet.wait_until("a tick done", lambda: composed.fleet.one(ticks) > 0)


def test_the_admin_asks_for_a_login(composed: Composed):
    with urlopen(composed.url("web", "PORT", "/admin/")) as answer:
        assert "/admin/login/" in answer.url
        assert answer.status == 200


def test_flower_asks_for_a_login(composed: Composed):
    for path in ("/workers", "/api/workers"):
        assert _status(Request(composed.url("flower", "FLOWER_PORT", path))) == 401
        assert _status(_with_login(composed, path)) == 200


def test_flower_stops_no_worker_even_for_a_logged_in_user(composed: Composed):
    worker = composed.fleet.one("SELECT name FROM queuemgr_worker WHERE name LIKE %s", "wrap@%")
    request = _with_login(composed, f"/api/worker/shutdown/{worker}")
    request.method = "POST"
    assert _status(request) == 403
    assert composed.processes["worker-wrap"].alive


def test_sigterm_ends_every_process_cleanly(composed: Composed):
    for process in composed.processes.values():
        process.signal(signal.SIGTERM)
    codes = {name: process.wait(60) for name, process in composed.processes.items()}
    assert codes == dict.fromkeys(LASTING, 0)
    still = "SELECT name FROM queuemgr_worker WHERE draining_at IS NULL"
    assert composed.fleet.database.rows(still) == []
    assert not any(composed.is_healthy(name) for name in LASTING if name != "beat")


def _with_login(composed: Composed, path: str) -> Request:
    request = Request(composed.url("flower", "FLOWER_PORT", path))
    login = b64encode(":".join(LOGIN.values()).encode()).decode()
    request.add_header("Authorization", f"Basic {login}")
    return request


def _status(request: Request) -> int:
    try:
        with urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code
