"""`queue export`: a line an execution, whole or not at all, flat in memory, quiet but for its data."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from pipeline.models import FLOW, Document
from queuemgr.flows.flow import get_flow, register_flow
from queuemgr.models import Attempt, Execution, State
from queuemgr.reporting import export
from queuemgr.scheduling import limit_rows
from tests.shell import Shell

pytestmark = pytest.mark.django_db(transaction=True)

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _limits() -> None:
    limit_rows.sync()


def ended(key: str, state: str = State.DONE, flow: str = "probe", **more: Any) -> Execution:
    row = {"phase": "wrap", "step": "report", "finished_at": NOON, "created_at": NOON, **more}
    return Execution.objects.create(flow=flow, key=key, state=state, **row)


def attempted(execution: Execution, outcome: str, seconds: float, cost: int = 0) -> None:
    Attempt.objects.create(
        execution=execution, lease_id=uuid4(), phase="wrap", step="report", priority=1, cost=cost,
        leased_at=NOON, started_at=NOON, ended_at=NOON + timedelta(seconds=seconds), outcome=outcome,
    )  # fmt: skip


def exported(*arguments: object) -> list[dict[str, Any]]:
    out = io.StringIO()
    call_command("queue", "export", "--jsonl", *map(str, arguments), stdout=out)
    return [json.loads(line) for line in out.getvalue().split("\n") if line]


def keys(*arguments: object) -> list[str]:
    return [line["key"] for line in exported(*arguments)]


def test_a_line_tells_an_executions_own_facts_and_what_its_attempts_came_to() -> None:
    failed = ended("k", State.FAILED, error_kind="not_pdf", error_message="it is a web page")
    attempted(failed, "retried", 1.5, cost=1)
    attempted(failed, "interrupted", 1)
    attempted(failed, "failed", 2, cost=2)
    assert exported() == [
        {
            "flow": "probe", "key": "k", "status": "failed", "state": "failed", "phase": "wrap",
            "step": "report", "priority": "normal", "error_kind": "not_pdf",
            "error": "it is a web page", "created": "2026-11-28T12:00:00.000000+00:00",
            "finished": "2026-11-28T12:00:00.000000+00:00", "tries": 2, "requests": 3,
            "worked_seconds": 4.5, "begun": "2026-11-28T12:00:00.000000+00:00", "item": {},
        }
    ]  # fmt: skip


def test_a_line_of_the_papers_flow_tells_what_is_known_of_the_paper() -> None:
    ended("doi:10.5555/1", flow=FLOW)
    Document.objects.create(
        key="doi:10.5555/1", kind="doi", source="10.5555/1", title="On gates", authors=["A. Brook"],
        pdf_url="https://example.org/a.pdf?signature=secret", report_html="reports/a.html",
        analysis={"summary": "Seals matter."}, pages=3, pages_by={"pypdf": 3},
    )  # fmt: skip
    item = exported()[0]["item"]
    assert (item["title"], item["authors"], item["pages"]) == ("On gates", ["A. Brook"], 3)
    assert item["pdf_url"] == "https://example.org/a.pdf", "what is signed stays here"
    assert item["files"] == {"report_html": "reports/a.html"}
    assert item["analysis"] == {"summary": "Seals matter."}


def test_an_execution_whose_flow_is_no_longer_here_is_exported_all_the_same() -> None:
    ended("k", flow="gone")
    assert exported("--flow", "gone")[0]["item"] == {}


def test_only_what_was_asked_for_is_exported() -> None:
    ended("done")
    ended("failed", State.FAILED, error_kind="network")
    ended("refused", State.FAILED, error_kind="not_pdf")
    ended("paper", flow=FLOW)
    ended("old", created_at=NOON - timedelta(days=9), finished_at=NOON - timedelta(days=8))
    ended("slow", created_at=NOON - timedelta(days=9))
    assert keys("--flow", FLOW) == ["paper"]
    assert keys("--state", "failed") == ["failed", "refused"]
    assert keys("--state", "failed", "--state", "done", "--kind", "network") == ["failed"]
    assert keys("--since", "2026-11-28") == ["done", "failed", "refused", "paper", "slow"]


def test_an_unknown_flow_is_refused_naming_the_known_ones() -> None:
    with pytest.raises(CommandError, match=r"no flow is called 'paper'.*papers, probe") as refused:
        exported("--flow", "paper")
    assert refused.value.returncode == 3


def test_chunks_leave_nothing_out_and_tell_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "CHUNK", 7)
    made = [ended(f"k{number}").key for number in range(50)]
    assert keys() == made


def test_rows_inserted_or_deleted_during_an_export_affect_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "CHUNK", 2)
    for number in range(6):
        ended(f"k{number}")
    found = export.exported(export.chosen())
    first_two = [next(found)["key"] for _ in range(2)]
    Execution.objects.filter(key__in=["k0", "k2"]).delete()
    ended("late")
    assert [*first_two, *(line["key"] for line in found)] == ["k0", "k1", "k3", "k4", "k5", "late"]


@pytest.mark.slow_proof
def test_memory_does_not_grow_with_the_number_of_executions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is kept is one chunk, however many there are."""
    monkeypatch.setattr(export, "CHUNK", 100)
    peaks = []
    for total in (500, 5000):
        _make(total)
        tracemalloc.start()
        call_command("queue", "export", "--jsonl", str(tmp_path / "out.jsonl"))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (tmp_path / "out.jsonl").read_bytes().count(b"\n") == total
    assert peaks[1] < peaks[0] * 2, peaks


def _make(total: int) -> None:
    """So many executions in all."""
    there = Execution.objects.count()
    rows = (
        Execution(
            flow="probe", key=f"k{number}", phase="wrap", step="report", state=State.DONE,
            finished_at=NOON,
        )
        for number in range(there, total)
    )  # fmt: skip
    Execution.objects.bulk_create(rows, batch_size=500)


def test_a_file_is_replaced_when_the_new_one_is_whole(tmp_path: Path) -> None:
    ended("k")
    file = tmp_path / "out.jsonl"
    file.write_text("earlier")
    call_command("queue", "export", "--jsonl", str(file))
    assert json.loads(file.read_text())["key"] == "k"
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


@pytest.fixture
def flow_that_breaks() -> Iterator[None]:
    """The flow of probes, unable to say what it knows of its items."""
    whole = get_flow("probe")

    def broken(keys: object) -> dict[str, Any]:
        raise KeyboardInterrupt

    register_flow(replace(whole, export=broken))
    yield
    register_flow(whole)


def test_an_export_that_is_stopped_leaves_the_earlier_file_and_no_half_one(
    tmp_path: Path, flow_that_breaks: None
) -> None:
    ended("k")
    file = tmp_path / "out.jsonl"
    file.write_text("earlier")
    with pytest.raises(CommandError, match="interrupted") as stopped:
        call_command("queue", "export", "--jsonl", str(file))
    assert stopped.value.returncode == 130
    assert file.read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"nowhere/out.jsonl cannot be written: No such file"):
        exported(tmp_path / "nowhere" / "out.jsonl")


def test_hostile_text_steers_no_terminal_and_ends_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Escape codes, marks that reverse text, and characters some readers take for a line break."""
    message = "\x1b[31m\x9b31m\u202e\u2028\x85\u2066é漢"
    ended("k", State.FAILED, error_kind="unexpected", error_message=message)
    out = io.StringIO()
    call_command("queue", "export", "--jsonl", stdout=out)
    assert len(out.getvalue().splitlines()) == 1
    assert not set(out.getvalue()) & set("\x1b\x9b\u202e\u2028\x85\u2066")
    assert "é漢" in out.getvalue()
    assert json.loads(out.getvalue())["error"] == message


# As a process of its own


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, shell: Shell) -> Path:
    """A data directory with 3,000 executions."""
    directory = tmp_path_factory.mktemp("data")
    (directory / "list").write_text("".join(f"2101.{n:05}\n" for n in range(1, 3001)))
    for arguments in (["migrate", "--verbosity", "0"], ["queue", "import", str(directory / "list")]):
        done = shell(directory, *arguments)
        assert done.returncode == 0, done.stderr
    return directory


def test_standard_output_contains_only_data_and_one_summary_goes_to_stderr(
    database: Path, shell: Shell
) -> None:
    done = shell(database, "queue", "export", "--jsonl")
    assert (done.returncode, done.stderr) == (0, "3,000 exported\n")
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 3000


def test_a_reader_that_had_enough_ends_it_quietly(database: Path, shell: Shell) -> None:
    started = shell.start(database, "queue", "export", "--jsonl", "-")
    assert json.loads(started.stdout.readline())["key"] == "arxiv:2101.00001"
    started.stdout.close()
    assert (started.stderr.read(), started.process.wait(timeout=180)) == (b"", 141)
    started.stderr.close()
