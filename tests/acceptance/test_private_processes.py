"""What a program of ours knows is closed to other programs of its user, as it really runs."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import psutil
import pytest

from queuemgr.local.private_servers import free_port, wait_for_port
from tests import pdf_builder
from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet
from tests.acceptance.processes import Process
from tests.integration.pipeline.steps.ocr_endpoint import numbered_pages
from tests.look_at_processes import FILES, open_files

CELERY = ("-m", "celery", "-A", "project")
OTHER_SERVER = """
import os
from project.wsgi import application
from waitress import serve
print("its environment:", sorted(os.environ), flush=True)
serve(application, listen="127.0.0.1:{port}")
"""


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A model that takes a connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


def test_no_program_that_holds_secrets_is_open_to_another_of_its_user(
    make_fleet: MakeFleet, silent: socket.socket
) -> None:
    fleet = make_fleet(
        ocr_base_url=f"http://127.0.0.1:{silent.getsockname()[1]}/v1", ocr_model="m", ocr_max_retries=0,
        ocr_api_key="key-of-the-model", allow_private_addresses=True,
    )  # fmt: skip
    paper = pdf_builder.written(fleet.directory, numbered_pages(1), "paper.pdf")
    queues, schedule = ("-P", "prefork", "-c", "1", "-Q", "prep.low"), str(fleet.directory / "beat-schedule")
    programs = {
        "worker": started(fleet, "worker", *CELERY, "worker", *queues, "-l", "INFO", "--without-mingle"),
        "beat": started(fleet, "beat", *CELERY, "beat", "--schedule", schedule, "--pidfile", ""),
        "ocr": started(fleet, "ocr", "manage.py", "ocr", str(paper), "--all-pages"),
        **web_servers(fleet),
        "flower": flower(fleet),
    }
    usual = started(fleet, "usual", "-c", "import time; print('begun', flush=True); time.sleep(60)")
    connection, _ = silent.accept()
    fleet.wait_for_workers(programs["worker"])
    fleet.wait_until("beat has begun", lambda: any(fleet.directory.glob("beat-schedule*")))
    fleet.wait_until("the usual one runs", lambda: "begun" in usual.output)
    with connection:
        found = {name: open_files(*pids_of(program)) for name, program in programs.items()}
        seen = open_files(usual.pid)
    assert found == {name: [] for name in programs}
    told = programs["waitress"].output
    assert "SLUICE_OCR_MODEL" in told and "SLUICE_OCR_API_KEY" not in told
    assert seen == [f"{usual.pid}/{name}" for name in FILES], "who looks would see it"


def started(fleet: Fleet, name: str, *arguments: str) -> Process:
    return fleet.start(name, sys.executable, "-W", "ignore", "-m", "tests.without_rights", *arguments)


@pytest.mark.slow_proof
def test_no_program_that_up_starts_nor_itself_is_open_to_another_of_its_user(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    up = fleet.start_from_scratch(
        "up", sys.executable, "-m", "tests.without_rights", "manage.py", "up", "--workers", "1"
    )
    fleet.wait_until("everything runs", lambda: "Ctrl-C stops everything" in up.output)
    main = psutil.Process(up.pid)
    ours = [each.pid for each in (main, *main.children(recursive=True)) if each.exe() == main.exe()]
    assert len(ours) >= len(["up", "supervisord", "worker", "housekeeping", "beat", "web", "flower"])
    assert open_files(*ours) == []
    up.stop()


def flower(fleet: Fleet) -> Process:
    port = free_port()
    process = fleet.start_from_scratch(
        "flower", sys.executable, "-W", "ignore", "-m", "tests.without_rights", *CELERY,
        "flower", "--address=127.0.0.1", f"--port={port}",
    )  # fmt: skip
    wait_for_port(port)
    return process


def web_servers(fleet: Fleet) -> dict[str, Process]:
    """Ours, in a project whose own application keeps nothing, and somebody else's with our application."""
    ours, others = free_port(), free_port()
    fleet.environment["DJANGO_SETTINGS_MODULE"] = "tests.acceptance.settings_of_another_project"
    web = started(fleet, "web", "manage.py", "serve", "--port", str(ours))
    del fleet.environment["DJANGO_SETTINGS_MODULE"]
    waitress = started(fleet, "waitress", "-c", OTHER_SERVER.replace("{port}", str(others)))
    wait_for_port(ours)
    wait_for_port(others)
    return {"web": web, "waitress": waitress}


def pids_of(program: Process) -> list[int]:
    """Of the program, and of the children that it forked."""
    main = psutil.Process(program.pid)
    return [main.pid, *(child.pid for child in main.children() if child.exe() == main.exe())]
