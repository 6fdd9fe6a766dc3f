"""`manage.py worker`: the Celery command it runs."""

from __future__ import annotations

import shlex
import sys

import pytest

from queuemgr.flows.flow import all_queues
from tests.integration.cli.commands import run

pytestmark = pytest.mark.django_db(transaction=True)


def test_worker_print_shows_the_plain_celery_command_it_runs() -> None:
    command = shlex.split(run("worker", "--print", "prep", "--slots", "3", "--pool", "prefork").out)
    assert command[:5] == [sys.executable, "-m", "celery", "-A", "project"]
    assert option(command, "--queues") == "prep.high,prep.normal,prep.low"
    assert (option(command, "--concurrency"), option(command, "--pool")) == ("3", "prefork")
    assert option(command, "--hostname") == "steps@%h"


def test_a_worker_without_a_phase_serves_every_queue_and_periodic_jobs_get_an_extra_slot() -> None:
    command = shlex.split(run("worker", "--print", "--name", "all").out)
    assert option(command, "--queues") == ",".join([*all_queues(), "housekeeping"])
    assert (option(command, "--concurrency"), option(command, "--hostname")) == ("9", "all@%h")


def test_periodic_jobs_are_served_or_not_as_the_command_says() -> None:
    with_jobs = shlex.split(run("worker", "--print", "prep", "--housekeeping").out)
    assert option(with_jobs, "--queues") == "prep.high,prep.normal,prep.low,housekeeping"
    without = shlex.split(run("worker", "--print", "--no-housekeeping").out)
    assert option(without, "--queues") == ",".join(all_queues())


def test_a_worker_of_an_unknown_phase_is_refused_with_the_known_ones() -> None:
    result = run("worker", "--print", "perp")
    assert (result.code, result.error) == (
        3, "no phase is called perp; there are prep, expensive, wrap",
    )  # fmt: skip


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]
