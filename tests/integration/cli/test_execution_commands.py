"""Acting on executions from a terminal: retry, skip, priority, reschedule."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from queuemgr.flows.flow import HIGH
from queuemgr.flows.outcomes import Done, Failed
from queuemgr.flows.unique import Unique
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import AuditEntry, Execution, State
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from tests.integration.cli.commands import Result, run

pytestmark = pytest.mark.django_db(transaction=True)


def queue(*arguments: object) -> Result:
    return run("queue", *arguments)


@pytest.fixture
def failed(played: Any, probes: Any) -> Execution:
    worker = played(slots=1)
    (execution,) = probes(1, limit_key="host:a", url="https://a.example/x?sig=hidden1")
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("not_found", "404"))
    return Execution.objects.get(pk=execution.pk)


def test_a_list_has_the_newest_that_match_each_with_why_it_waits_or_failed(
    failed: Execution, probes: Any
) -> None:
    probes(4)
    lines = queue("list").lines
    assert lines[0].split() == ["flow", "key", "status", "priority", "created", "why"]
    assert len(lines) == 5 and "failed: 404" in lines[-1]
    (row,) = queue("list", "state=failed", "flow=probe", "--json").records
    assert (row["key"], row["status"], row["error_kind"]) == (failed.key, "failed", "not_found")
    newest = queue("list", "--limit", "2").lines
    assert len(newest) == 5 and newest[-1] == "the newest 2; --limit shows more, a filter other ones"
    assert "no filter is called 'stat'" in queue("list", "stat=failed").error


def test_retry_names_what_it_left_unchanged_and_ends_with_1(
    failed: Execution, played: Any, probes: Any
) -> None:
    worker = played(slots=1, name="w@two")
    probes(1, prefix="done")
    (grant,) = worker.begin_all()
    worker.end(grant, Done())
    result = queue("retry", "p0", "done0", "--reason", "it is back")
    assert result.lines == ["done0 left unchanged: it is done", "1 retried, 1 left unchanged"]
    assert result.code == 2
    change = AuditEntry.objects.get()
    assert (change.action, change.target, change.reason) == ("retry", "probe/p0", "it is back")


def test_a_payload_is_shown_masked_edited_in_a_file_and_keeps_what_was_masked(
    failed: Execution, tmp_path: Path
) -> None:
    shown = queue("show", "p0", "--json")
    assert "hidden1" not in shown.out
    payload = {**shown.records[0]["payload"], "limit_key": "host:b"}
    (tmp_path / "p.json").write_text(json.dumps(payload))
    result = queue("retry", "p0", "--from-start", "--reason", "x", "--payload", tmp_path / "p.json")
    assert (result.lines, result.code) == (["1 retried, 0 left unchanged"], 0)
    again = Execution.objects.get()
    assert again.payload == {"limit_key": "host:b", "url": "https://a.example/x?sig=hidden1"}


@pytest.mark.parametrize(
    ("content", "error"),
    [(b'{"a": ', "line 1, column 7"), (b"\xff", "cannot be read"), (None, "cannot be read")],
)
def test_a_payload_that_cannot_be_read_is_refused_with_3(
    failed: Execution, tmp_path: Path, content: bytes | None, error: str
) -> None:
    if content is not None:
        (tmp_path / "p.json").write_bytes(content)
    result = queue("retry", "p0", "--payload", tmp_path / "p.json")
    assert result.code == 3
    assert error in result.error
    assert Execution.objects.get().state == State.FAILED


def test_one_payload_for_several_executions_is_refused(failed: Execution) -> None:
    assert "name one key" in queue("retry", "p0", "p1", "--payload", "-").error


def test_the_unique_key_that_an_execution_holds_is_shown(sent: list[Any]) -> None:
    enqueue("probe", "a", {"tenant": "acme"}, unique=Unique(keys=["tenant"]))
    assert queue("show", "a", "--json").records[0]["unique_key"] == 'tenant="acme"'
    executions.cancel(Execution.objects.all(), Actor("ann", "test", "because"))
    assert queue("show", "a", "--json").records[0]["unique_key"] is None


def test_skip_priority_and_reschedule_say_what_they_did(probes: Any) -> None:
    probes(2)
    assert queue("priority", "high", "p0").out == "1 changed, 0 left unchanged\n"
    later = queue("reschedule", "2030-01-02 06:00", "p0")
    assert later.out == "1 rescheduled, 0 left unchanged\n"
    first = Execution.objects.get(key="p0")
    assert (first.priority, first.run_after) == (HIGH, datetime(2030, 1, 2, 6, tzinfo=UTC))
    assert queue("reschedule", "now", "p0").code == 0
    assert queue("skip", "p0", "p1", "--reason", "x").out == "2 skipped, 0 left unchanged\n"
    assert queue("skip", "p0", "--reason", "x").lines[0] == "p0 left unchanged: it is skipped"
    assert {source for (source,) in AuditEntry.objects.values_list("source")} == {"command"}


def test_an_unknown_key_leaves_the_other_executions_unchanged(probes: Any) -> None:
    probes(1)
    for arguments in (("skip",), ("retry",), ("priority", "high"), ("reschedule", "now")):
        assert queue(*arguments, "p0", "nobody").code == 3
    assert not AuditEntry.objects.exists()
