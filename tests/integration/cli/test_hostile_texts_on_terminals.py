"""No text of somebody else controls the terminal of who runs a command: keys, reasons, names and errors that
are full of escapes, through every command that shows some."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command

from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.subcommands import load_all
from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Batch, Execution, Schedule, ScheduledRun
from queuemgr.operations import batches, schedules
from queuemgr.operations.controls import Actor
from queuemgr.schedules import fire
from queuemgr.scheduling import limit_rows
from tests.integration.cli.commands import queue

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent")]

ESCAPES = "\x1b[31mred\x1b]0;title\x07\u202e\x9b1m\x08"
BAD = {character for character in ESCAPES if not character.isprintable()}


@pytest.fixture(autouse=True)
def _full_of_escapes(sent: list[Any]) -> None:
    limit_rows.sync()
    by = Actor(ESCAPES, "command", ESCAPES)
    enqueue("probe", ESCAPES, {"a": ESCAPES, ESCAPES: 1})
    ended = {"state": "failed", "finished_at": database_now(), "error_kind": "not_found", "route": None}
    Execution.objects.update(**ended, error_message=ESCAPES, wait_reason=ESCAPES)
    batch = batches.open_batch("night", "probe", by)
    batches.add(batch, [NewExecution(f"{ESCAPES}2")])
    Batch.objects.update(cancelled_because=ESCAPES, created_by=ESCAPES)
    row = schedules.create("nightly", "probe", "every 5m", by, payload={"a": ESCAPES})
    assert row.next_due_at
    fire.run_due(row.next_due_at)
    ScheduledRun.objects.update(requested_by=ESCAPES)
    schedules.pause("nightly", by)
    Schedule.objects.update(pause_reason=ESCAPES)


SHOW = (
    ("schedule list", []), ("schedule show", ["nightly"]), ("batch list", []), ("batch show", ["night"]),
    ("batch results", ["night"]), ("attempts", []), ("show", [ESCAPES]), ("why", [ESCAPES]), ("audit", []),
    ("limits", []), ("stats", []), ("failed export", ["-"]), ("export", ["--jsonl"]), ("worker list", []),
    ("retry", [ESCAPES]), ("skip", [ESCAPES]), ("cancel", [f"{ESCAPES}2"]), ("bulk list", []),
    ("failed hand-over", ["--to", "probe"]), ("token list", []), ("webhook list", []), ("roles", []),
)  # fmt: skip
REFUSE = (
    ("show", [f"{ESCAPES}x"]), ("why", [f"{ESCAPES}x"]), ("schedule show", [ESCAPES]),
    ("schedule create", [ESCAPES, "every 5m", "--flow", "probe"]), ("batch show", [ESCAPES]),
    ("schedule create", ["x", f"every {ESCAPES}", "--flow", "probe"]), ("import", [ESCAPES]),
    ("schedule create", ["x", "every 5m", "--flow", ESCAPES]), ("failed import", [ESCAPES]),
    ("pause", [ESCAPES]), ("failed hand-over", ["--to", ESCAPES]),
)  # fmt: skip


@pytest.mark.parametrize(("command", "arguments"), SHOW, ids=lambda given: str(given) if given else "")
def test_what_a_command_shows_controls_no_terminal(command: str, arguments: list[str]) -> None:
    if command not in load_all():
        pytest.skip(f"there is no {command}")
    done = queue(*command.split(), *arguments)
    assert (done.code, done.error) == (0, "") or done.error.isprintable()
    assert not BAD & {*done.out, *done.error}


@pytest.mark.parametrize(("command", "arguments"), REFUSE, ids=lambda given: str(given)[:20])
def test_what_a_command_refuses_controls_no_terminal(command: str, arguments: list[str]) -> None:
    done = queue(*command.split(), *arguments)
    assert done.code
    assert not BAD & {*done.out, *done.error}
    assert "red" in done.error


def test_doctor_controls_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call_command("doctor")
    assert not BAD & {*capsys.readouterr().out}
