"""`queue bulk`: what it says, what it changes, and how it ends."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from queuemgr.models import ActionState, AuditEntry, BulkAction, Execution
from queuemgr.operations import bulk
from queuemgr.operations.bulk import chunk
from queuemgr.operations.bulk import runner as bulk_runner
from queuemgr.operations.controls import Actor
from tests.integration.operations.bulk_fixtures import carried_out, some_failed, started

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_messages(sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queuemgr.lifecycle.publish.periodic_job", lambda task: None)


def bulk_output(*arguments: object) -> tuple[str, int]:
    """What `queue bulk …` wrote, and its exit code."""
    out = io.StringIO()
    try:
        call_command("queue", "bulk", *map(str, arguments), stdout=out)
    except SystemExit as ended:
        return out.getvalue(), int(ended.code or 0)
    return out.getvalue(), 0


def refused(*arguments: object) -> tuple[str, int]:
    with pytest.raises(CommandError) as caught:
        bulk_output(*arguments)
    return str(caught.value), caught.value.returncode


def test_a_preview_prints_count_and_sample_and_changes_nothing() -> None:
    some_failed(3, message="refused by a")
    text, code = bulk_output("preview", "retry", "state=failed")
    assert "3 would change: each continues from the step it stopped at" in text
    assert "probe/f0" in text
    assert "network: refused by a" in text
    assert (code, BulkAction.objects.count()) == (0, 0)
    (line,) = bulk_output("preview", "retry", "state=failed", "--json")[0].splitlines()
    seen = json.loads(line)
    assert (seen["matched"], seen["verb"], len(seen["sample"])) == (3, "retry", 3)


def test_an_action_is_started_run_in_this_process_shown_and_listed() -> None:
    some_failed(3)
    text, code = bulk_output("start", "retry", "error_kind=network", "--reason", "mended")
    assert (code, text.startswith("started: retry #")) == (0, True)
    action = BulkAction.objects.get()
    assert (action.source, action.reason, action.filters) == (
        "command", "mended", {"error_kind": "network"},
    )  # fmt: skip
    text, code = bulk_output("run")
    assert (code, "100% of 3; 3 changed" in text) == (0, True)
    assert not Execution.objects.failed().exists()
    shown = json.loads(bulk_output("show", action.pk, "--json")[0])
    assert (shown["state"], shown["changed"], shown["percent"]) == ("done", 3, 100)
    assert "mended" in bulk_output("show", action.pk)[0]
    assert "error_kind network" in bulk_output("list")[0]
    assert json.loads(bulk_output("list", "--json")[0])["id"] == action.pk


def test_a_stop_is_recorded_and_the_rest_continues() -> None:
    some_failed(4)
    action = started()
    chunk.change_next(action.pk, rows=1)
    text, code = bulk_output("stop", action.pk, "--reason", "wrong ones")
    assert (code, "stopped by" in text, "25% of 4" in text) == (0, True, True)
    assert AuditEntry.objects.get(action="stop bulk action").reason == "wrong ones"
    assert bulk_output("resume", action.pk)[0].startswith("started:")
    assert carried_out(BulkAction.objects.latest("pk")).changed == 3
    assert refused("stop", action.pk)[1] == 3


def test_watching_in_a_pipe_writes_one_line_at_the_end_and_no_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing that moves, no control characters; and what ended early is no success."""
    some_failed(3)
    action = started()
    monkeypatch.setattr("time.sleep", lambda seconds: carried_out(action, rows=1))
    text, code = bulk_output("show", action.pk, "--watch")
    assert (len(text.splitlines()), code) == (1, 0)
    assert text.isprintable() or text.strip().isprintable()
    assert capsys.readouterr().err == ""
    some_failed(1, prefix="more")
    halted = started()
    bulk.stop(halted.pk, Actor("bob", "admin"))
    assert bulk_output("show", halted.pk, "--watch")[1] == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("start", "retry"), "give a filter such as state=failed, or --everything"),
        (("start", "retry", "failed"), "'failed' is not a filter; format: state=failed"),
        (("start", "retry", "colour=red"), "no filter is called 'colour'"),
        (("start", "retry", "ids=1,x"), "are not comma-separated numbers"),
        (("start", "reschedule", "state=waiting"), "reschedule needs run_after"),
        (("start", "retry", "state=failed", "--priority", "high"), "retry takes no 'priority'"),
        (("start", "cancel", "state=failed", "--reason", "x"), "there is nothing to cancel"),
        (("show", "77"), "there is no bulk action #77"),
    ],
)
def test_an_invalid_bulk_request_is_refused_with_the_remedy(arguments: tuple[str, ...], error: str) -> None:
    some_failed(1)
    text, code = refused(*arguments)
    assert (code, error in text) == (3, True), text
    assert not BulkAction.objects.exists()


def test_a_bulk_action_on_every_execution_needs_the_option_everything() -> None:
    some_failed(2)
    assert bulk_output("start", "priority", "--everything", "--priority", "high")[1] == 0
    bulk_runner.run()
    assert BulkAction.objects.get().state == ActionState.DONE
    assert Execution.objects.filter(priority=0).count() == 2


def test_retry_failed_retries_many_as_a_bulk_action_with_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "AT_ONCE", 2)
    some_failed(3)
    out = io.StringIO()
    call_command("queue", "retry-failed", "--error-kind", "network", "--reason", "mended", stdout=out)
    action = BulkAction.objects.get()
    assert (action.matched, action.per_minute, action.reason) == (3, 600, "mended")
    assert f"queue bulk show {action.pk} --watch" in out.getvalue()
    bulk.stop(action.pk, Actor("bob", "admin"))
    out = io.StringIO()
    call_command("queue", "retry-failed", "--per-minute", "0", stdout=out)
    assert out.getvalue() == "3 retried\n"
