"""What commands print they accept back, and what is given to them wrongly they refuse with a sentence."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pipeline.models import FLOW
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import flow
from queuemgr.flows.flow import Flow, Phase, Step
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Attempt, Execution, Limit, Queue
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from tests.integration.cli.commands import REPOSITORY, queue

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_is_sent(sent: list[Any]) -> None: ...


TAKE_KEYS: dict[str, tuple[str, ...]] = {
    "show": ("show",), "why": ("why",), "retry": ("retry",),
    "cancel": ("cancel", "--reason", "x"), "skip": ("skip", "--reason", "x"),
    "priority": ("priority", "high"), "reschedule": ("reschedule", "now"), "attempts": ("attempts", "--key"),
}  # fmt: skip


@pytest.mark.parametrize("command", TAKE_KEYS)
def test_a_key_as_it_is_printed_is_accepted_back_by_every_command_that_takes_keys(command: str) -> None:
    enqueue("probe", "a/b")
    execution = Execution.objects.get()
    for key in (str(execution), execution.key):
        result = queue(*TAKE_KEYS[command], key)
        assert result.code in (0, 2), result
        assert "no execution has the key" not in result.error


def test_a_key_that_reads_both_ways_needs_its_flow() -> None:
    enqueue("probe", "k")
    enqueue(FLOW, "probe/k", {"kind": "doi"})
    assert "several flows have the key" in queue("show", "probe/k").error
    assert queue("show", "probe/k", "--flow", FLOW).code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", b"\xff"), ("enqueue", b"a\xffb"), ("cancel", "a", "--reason", b"\xe9t\xe9"),
        ("limit", b"host:\xff"), ("import", b"\xff.txt"), ("batch", "open", b"\xff"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_utf_8_on_the_command_line_are_named(arguments: tuple[str | bytes, ...]) -> None:
    given = [a.decode("utf-8", "surrogateescape") if isinstance(a, bytes) else a for a in arguments]
    result = queue(*given)
    assert result.code == 64
    assert "on the command line is not UTF-8" in result.error
    result.error.encode()


def test_a_payload_on_standard_input_that_is_no_utf_8_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue("probe", "k")
    Execution.objects.update(state="failed", finished_at=database_now(), route=None)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": "\xff"}'), "utf-8"))
    result = queue("retry", "k", "--payload", "-")
    assert result.code == 3
    assert "cannot be read" in result.error


def test_import_takes_only_the_first_items_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "items.txt"
    file.write_text("".join(f"10.1000/{n}\n\n" for n in range(9)))
    assert queue("import", file, "--limit", 4).lines == ["4 new, 0 already there, 0 bad"]
    assert queue("import", "--hold", file, "--limit", 5).lines == ["5 held, 0 bad"]


def test_retry_failed_leaves_out_what_was_tried_too_often() -> None:
    now = database_now()
    for tries in (1, 2, 3):
        enqueue("probe", f"tried-{tries}")
        row = Execution.objects.get(key=f"tried-{tries}")
        for outcome in ["retried"] * tries + ["snoozed"] * 5:
            Attempt.objects.create(
                lease_id=uuid4(), execution=row, phase=row.phase, step=row.step, priority=1, cost=0,
                leased_at=now, started_at=now, ended_at=now, outcome=outcome,
            )  # fmt: skip
    Execution.objects.update(state="failed", finished_at=now, route=None)
    assert queue("retry-failed", "--max-attempts", 2, "--dry-run").lines[0] == "2 would be retried"
    assert queue("retry-failed", "--max-attempts", 2).lines == ["2 retried"]
    assert Execution.objects.get(state="failed").key == "tried-3"


def test_keys_with_a_payload_are_enqueued_for_a_flow_that_takes_no_items(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    letters = Flow("letters", (Phase("prep", 2, "w", "r", (Step("send", "letters.send"),)),))
    monkeypatch.setitem(flow._flows, "letters", letters)
    done = queue("enqueue", "--flow", "letters", "l-1", "l-2", "--payload", '{"to": "ann"}')
    assert done.lines == ["2 new, 0 already there"]
    assert list(Execution.objects.values_list("payload", flat=True)) == [{"to": "ann"}] * 2
    assert "line 1" in queue("enqueue", "--flow", "letters", "l-3", "--payload", "{to: ann}").error
    assert "--payload" in queue("enqueue", "--flow", "letters", "l-3").error
    assert "leave out --payload" in queue("enqueue", "--flow", FLOW, "10.1/1", "--payload", "{}").error


def test_a_limit_is_edited_before_the_first_worker_has_started() -> None:
    Limit.objects.all().delete()
    assert queue("limit", "host:r", "--rate", "5/s").lines[0].startswith("host:r: rate=5/s")
    assert Limit.objects.get(name="host:r").rate == "5/s"
    limit_rows.sync()
    assert Limit.objects.get(name="host:r").rate == "5/s"
    assert queue("limit", "phase:prep").code == 0


COMMANDS: dict[str, tuple[str, ...]] = {
    "limit": ("limit", "host:r", "--max-running", "3"), "pause": ("pause", "wrap"),
    "resume": ("resume", "wrap"),
    "show a limit": ("limit", "fleet"), "policy": ("policy", "network", "--max-attempts", "9"),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_undoes_neither_the_options_of_a_fleet_nor_an_edit(
    command: str, configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fleet was started with `--max-prep 2` and `--max-pending 50`; the command knows none of it."""
    configure(max_pending=50)
    monkeypatch.setenv("SLUICE_MAX_PREP", "2")
    limit_rows.sync()
    controls.edit_limit("phase:expensive", Actor("ann", "test"), max_running=7)
    monkeypatch.delenv("SLUICE_MAX_PREP")
    configure(max_pending=0)
    assert queue(*COMMANDS[command]).code in (0, 3)
    caps = dict(Limit.objects.filter(name__startswith="phase:").values_list("name", "max_running"))
    assert (caps["phase:prep"], caps["phase:expensive"]) == (2, 7)
    assert set(Queue.objects.values_list("max_pending", flat=True)) == {50}


def test_such_bytes_end_a_command_of_its_own_process_without_a_traceback() -> None:
    command = [sys.executable, "manage.py", "queue", "show", b"\xff"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 64
    assert "Traceback" not in done.stderr


def test_lines_of_csv_end_as_other_lines_do() -> None:
    queue("pause", "everything")
    lines = queue("audit", "--csv").out.splitlines()
    assert len(lines) == 2 and all("u000d" not in line for line in lines)
