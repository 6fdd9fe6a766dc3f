"""Bulk actions: what they meet, that a killed worker's half is neither lost nor done again, and the
record they leave."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import HIGH
from queuemgr.flows.outcomes import Failed
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import ActionState, Attempt, AuditEntry, BulkAction, Execution, Lease, PeriodicJob, State
from queuemgr.operations import bulk, executions
from queuemgr.operations.bulk import BulkRequest, chunk
from queuemgr.operations.bulk import runner as bulk_runner
from queuemgr.operations.controls import Actor
from queuemgr.worker import beat, housekeeping
from tests.integration.operations.bulk_fixtures import (
    ANN,
    FAILED,
    a_person,
    carried_out,
    counts,
    fail,
    some_failed,
    started,
)

LATER = datetime(2031, 1, 1, 6, tzinfo=UTC)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def sent_tasks(sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages for periodic jobs that would have gone out."""
    tasks: list[str] = []
    monkeypatch.setattr("queuemgr.lifecycle.publish.periodic_job", tasks.append)
    return tasks


def states() -> dict[str, str]:
    return dict(Execution.objects.order_by("pk").values_list("key", "state"))


def test_a_preview_counts_samples_and_changes_nothing() -> None:
    some_failed(25)
    enqueue("probe", "waits")
    seen = bulk.preview(BulkRequest("retry", {"flow": "probe"}))
    assert (seen.matched, seen.more, seen.left_alone) == (25, False, {"waiting": 1})
    assert len({e.key for e in seen.sample}) == bulk.SAMPLE
    assert not BulkAction.objects.exists()
    assert not AuditEntry.objects.exists()


def test_a_preview_stops_counting_where_it_would_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "COUNTED", 5)
    some_failed(9)
    seen = bulk.preview(BulkRequest("retry", FAILED))
    assert (seen.matched, seen.more) == (5, True)
    assert bulk.create(BulkRequest("retry", FAILED), ANN).matched == 9, "in full, once it is written down"


@pytest.mark.parametrize(
    ("name", "arguments", "became"),
    [
        ("retry", {}, {"state": "waiting"}),
        ("retry_from_start", {}, {"state": "waiting"}),
        ("skip", {}, {"state": "skipped"}),
        ("priority", {"priority": "high"}, {"priority": HIGH}),
    ],
)
def test_every_action_on_ended_work_changes_all_of_it(
    name: str, arguments: dict[str, Any], became: dict[str, Any]
) -> None:
    some_failed(7)
    action = carried_out(started(name, arguments=arguments), rows=3)
    assert (action.state, counts(action)) == (ActionState.DONE, (7, 0, 0))
    assert Execution.objects.filter(**became).count() == 7


@pytest.mark.parametrize(
    ("name", "arguments", "became"),
    [
        ("cancel", {}, {"state": "cancelled"}),
        ("skip", {}, {"state": "skipped"}),
        ("reschedule", {"run_after": "2031-01-01 06:00"}, {"run_after": LATER}),
    ],
)  # fmt: skip
def test_every_action_on_waiting_work_changes_all_of_it(
    name: str, arguments: dict[str, Any], became: dict[str, Any], probes: Any
) -> None:
    probes(5)
    carried_out(started(name, {"flow": "probe"}, arguments=arguments), rows=2)
    assert Execution.objects.filter(**became).count() == 5


def test_only_the_failed_executions_of_a_mixture_are_retried_and_the_rest_is_reported(
    played: Any, probes: Any
) -> None:
    """Failed, running, done, cancelled and waiting; pressed twice."""
    (failed,) = some_failed(1)
    (waits,) = probes(1, prefix="w")
    executions.cancel([waits], ANN)
    worker = played(slots=2)
    runs, ends = probes(2, prefix="r")
    grants = {grant.key: grant for grant in worker.begin_all()}
    worker.end(grants[ends.key], next_too=False)
    seen = bulk.preview(BulkRequest("retry", {"state": "failed"}))
    assert seen.matched == 1
    everything = bulk.preview(BulkRequest("retry", {"flow": "probe"}))
    assert everything.left_alone == {"running": 1, "done": 1}
    first, second = started(), bulk.create(BulkRequest("retry", FAILED), ANN)
    bulk.start(second.pk, Actor("bob", "command"))
    assert counts(carried_out(first)) == (1, 0, 0)
    assert counts(carried_out(second)) == (0, 1, 0), "skipped, because changed since"
    assert AuditEntry.objects.filter(action="bulk retry").count() == 1
    assert states()[failed.key] in (State.WAITING, State.LEASED)
    assert states()[runs.key] == State.RUNNING


def test_a_worker_killed_in_a_chunk_leaves_it_undone_and_the_next_does_each_row_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half-done silence is what it must not be."""
    some_failed(10)
    action = started()
    chunk.change_next(action.pk, rows=4)
    advance = chunk._advance

    def killed(*given: Any) -> None:
        advance(*given)
        raise SystemExit(137)

    with monkeypatch.context() as patched:
        patched.setattr(chunk, "_advance", killed)
        with pytest.raises(SystemExit):
            chunk.change_next(action.pk, rows=4)
    assert counts(action) == (4, 0, 0)
    assert Execution.objects.failed().count() == 6
    assert counts(carried_out(action, rows=4)) == (10, 0, 0)
    retried = [c for c in AuditEntry.objects.filter(action="bulk retry")]
    assert sum(change.affected for change in retried) == 10


def test_the_tick_requeues_a_bulk_action_whose_worker_was_killed(sent_tasks: list[str]) -> None:
    some_failed(2)
    started()
    assert sent_tasks == [bulk.TASK]
    housekeeping.tick()
    assert sent_tasks == [bulk.TASK] * 2
    bulk_runner.run()
    housekeeping.tick()
    assert sent_tasks == [bulk.TASK] * 2, "no action is left to run"


def test_a_slice_of_a_bulk_action_is_run_by_one_worker_and_followed_by_the_next(
    sent_tasks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_runner, "SLICE_SECONDS", 0.0)
    some_failed(3)
    started()
    monkeypatch.setattr(bulk_runner, "run", lambda: chunk.change_next(BulkAction.objects.get().pk, 1).changed)
    assert beat.work_on_bulk_actions() == {"changed": 1}
    assert sent_tasks == [bulk.TASK] * 2
    PeriodicJob.objects.filter(name="bulk").update(ran_at=database_now())
    monkeypatch.setattr(bulk_runner, "SLICE_SECONDS", 2.0)
    assert beat.work_on_bulk_actions() is None, "another is at it"


def test_a_stop_takes_effect_with_the_chunk_under_way_and_the_rest_can_continue() -> None:
    some_failed(10)
    action = started()
    chunk.change_next(action.pk, rows=4)
    bulk.stop(action.pk, Actor("bob", "admin", "wrong group"))
    assert chunk.change_next(action.pk) == chunk.ChunkResult()
    stopped = bulk.get_or_error(action.pk)
    assert (stopped.state, stopped.stopped_by, stopped.changed) == (ActionState.STOPPED, "bob", 4)
    assert Execution.objects.failed().count() == 6
    rest = carried_out(bulk.resume(action.pk, ANN))
    assert (rest.matched, rest.changed, rest.skipped) == (6, 6, 0)
    with pytest.raises(BadInput, match="nothing to stop"):
        bulk.stop(action.pk, ANN)


def test_what_changed_since_the_preview_is_left_alone_and_counted() -> None:
    """One retried by hand, one that failed again later, one that was cancelled while the chunk's rows
    were looked up: none is touched, all are counted."""
    some = some_failed(6)
    action = started()
    executions.retry(some[:1], Actor("bob", "admin"))
    executions.retry(some[1:2], Actor("bob", "admin"))
    fail([some[1].pk])
    done = carried_out(action)
    assert (done.matched, counts(done)) == (6, (4, 2, 0))
    assert states()["f1"] == State.FAILED


def test_a_row_that_changes_between_read_and_lock_is_left_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    some = some_failed(3)
    action = started()
    look = chunk._next_ids

    def and_then_another_comes(*given: Any) -> list[int]:
        ids = look(*given)
        executions.skip(some[1:2], Actor("bob", "admin"))
        return ids

    monkeypatch.setattr(chunk, "_next_ids", and_then_another_comes)
    assert counts(carried_out(action)) == (2, 1, 0)
    assert states()["f1"] == State.SKIPPED


def test_work_enqueued_after_the_preview_is_not_changed() -> None:
    some_failed(2)
    action = started()
    some_failed(2, prefix="late")
    assert counts(carried_out(action)) == (2, 0, 0)
    assert Execution.objects.failed().count() == 2


def test_a_row_that_raises_is_counted_as_failed_and_the_others_are_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = some_failed(5)
    action = started()
    move = executions.states.move

    def chokes(ids: Any, *given: Any, **columns: Any) -> None:
        if some[2].pk in ids:
            raise ValueError("a payload no rule can read")
        move(ids, *given, **columns)

    monkeypatch.setattr(executions.states, "move", chokes)
    done = carried_out(action)
    assert counts(done) == (4, 0, 1)
    assert f"execution {some[2].pk}: ValueError: a payload" in done.problem
    assert states()["f2"] == State.FAILED


def test_bulk_retries_keep_to_the_rate_across_restarts(
    monkeypatch: pytest.MonkeyPatch, configure: Callable[..., None]
) -> None:
    """Nobody's sleep is counted on: the clock is in the row, and time nobody used is not made up for."""
    monkeypatch.setattr(bulk, "AT_ONCE", 50)
    configure(bulk_retries_per_minute=60)
    some_failed(60)
    action = started()
    assert action.per_minute == 60
    assert chunk.change_next(action.pk).changed == 1
    assert chunk.change_next(action.pk).changed == 0
    assert bulk_runner.due() == []
    since(action, seconds=6)
    assert bulk_runner.due() == [action.pk]
    assert chunk.change_next(action.pk).changed == 6
    since(action, seconds=3600)
    assert chunk.change_next(action.pk).changed == 11, "ten seconds' worth, not an hour's"


def since(action: BulkAction, seconds: float) -> None:
    """Let so much time pass for the action's clock."""
    row = bulk.get_or_error(action.pk)
    assert row.due_at
    BulkAction.objects.filter(pk=action.pk).update(due_at=row.due_at - timedelta(seconds=seconds))


def test_few_retries_and_other_verbs_are_not_rate_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    some_failed(4)
    assert bulk.create(BulkRequest("retry", FAILED), ANN).per_minute == 0
    monkeypatch.setattr(bulk, "AT_ONCE", 1)
    assert bulk.create(BulkRequest("skip", FAILED), ANN).per_minute == 0
    assert bulk.create(BulkRequest("retry", FAILED, per_minute=0), ANN).per_minute == 0


@pytest.mark.only_on("postgres", why="needs two connections")
def test_two_runners_at_once_change_each_row_once(in_threads: Callable[..., list[Any]]) -> None:
    some_failed(40)
    action = started()

    def work(number: int) -> int:
        changed = 0
        while bulk.get_or_error(action.pk).state == ActionState.RUNNING:
            changed += chunk.change_next(action.pk, rows=5).changed
        return changed

    assert sum(in_threads(3, work)) == 40
    assert counts(action) == (40, 0, 0)
    chunks = AuditEntry.objects.filter(action="bulk retry")
    assert sum(change.affected for change in chunks) == 40


def test_other_processes_begin_and_finish_work_between_two_chunks(played: Any, probes: Any) -> None:
    worker = played(slots=2)
    probes(2, prefix="own")
    some_failed(6)
    action = started()
    chunk.change_next(action.pk, rows=3)
    begun = worker.begin_all()
    assert len(begun) == 2
    worker.end(begun[0])
    assert Lease.objects.count() == 2, "the freed slot has work again"
    assert counts(carried_out(action, rows=3)) == (6, 0, 0)


def test_the_record_names_who_why_and_every_execution_by_id() -> None:
    some = some_failed(5)
    action = carried_out(started(), rows=3)
    rows = AuditEntry.objects.filter(action_id=action.pk).order_by("pk")
    assert [(c.action, c.affected) for c in rows] == [
        ("start bulk action", 5), ("bulk retry", 3), ("bulk retry", 2), ("end bulk action", 5),
    ]  # fmt: skip
    assert {(c.actor, c.source, c.reason) for c in rows} == {("ann", "admin", "proxy mended")}
    ids = [e.pk for e in some]
    assert rows[1].before == {"state failed": f"{ids[0]}-{ids[2]}"}
    assert rows[1].after == {"state waiting": f"{ids[0]}-{ids[2]}"}


@pytest.mark.parametrize(
    ("bulk_request", "message"),
    [
        (BulkRequest("destroy", FAILED), "no bulk action is called 'destroy'; there are: retry"),
        (BulkRequest("priority", FAILED), "priority needs priority: high, normal or low"),
        (BulkRequest("priority", FAILED, {"priority": "urgent"}), "'urgent' is not one of"),
        (BulkRequest("reschedule", FAILED, {"run_after": "soon"}), "'soon' is no time"),
        (BulkRequest("reschedule", FAILED, {"run_after": "2099-01-01"}), "more than ten years ahead"),
        (BulkRequest("retry", FAILED, {"force": "1"}), "retry takes no 'force'"),
        (BulkRequest("retry", {"colour": "red"}), "no filter is called 'colour'"),
        (BulkRequest("cancel", FAILED), "there is nothing to cancel"),
    ],
)
def test_an_invalid_bulk_request_is_refused_with_the_remedy(bulk_request: BulkRequest, message: str) -> None:
    some_failed(1)
    with pytest.raises(BadInput, match=message):
        bulk.create(bulk_request, ANN)
    assert not BulkAction.objects.exists()


def test_an_action_that_cannot_continue_ends_with_the_reason_and_the_others_continue() -> None:
    some_failed(3)
    broken, sound = started(), started("priority", arguments={"priority": "high"})
    BulkAction.objects.filter(pk=broken.pk).update(filters={"gone": "since an upgrade"})
    bulk_runner.run()
    ended = bulk.get_or_error(broken.pk)
    assert (ended.state, counts(sound)) == (ActionState.FAILED, (3, 0, 0))
    assert "no filter is called 'gone'" in ended.problem


def test_an_action_is_started_once_and_an_unknown_one_is_named() -> None:
    some_failed(1)
    action = started()
    with pytest.raises(BadInput, match="it was started before"):
        bulk.start(action.pk, ANN)
    with pytest.raises(BadInput, match="there is no bulk action #99999"):
        bulk.start(99999, ANN)


def test_a_bulk_action_can_be_on_rows_named_by_id() -> None:
    a_person()
    some = some_failed(4)
    action = bulk.begin(BulkRequest("retry", {"ids": [some[0].pk, some[3].pk]}), ANN)
    assert counts(carried_out(action)) == (2, 0, 0)
    assert Execution.objects.failed().count() == 2


def test_failed_executions_and_their_attempts_are_kept_until_a_person_decides(
    played: Any, probes: Any, configure: Callable[..., None]
) -> None:
    """However long ago: pruning forgets the attempts of what is done, cancelled or skipped only."""
    configure(keep_attempts_days=1)
    worker = played(slots=2)
    probes(2)
    fails, ends = worker.begin_all()
    worker.end(fails, Failed("not_found", "404"), next_too=False)
    worker.end(ends, next_too=False)
    Attempt.objects.update(ended_at=database_now() - timedelta(days=400))
    Execution.objects.update(finished_at=database_now() - timedelta(days=400))
    assert housekeeping.prune()["attempts"] == 1
    assert Attempt.objects.get().execution.state == State.FAILED
    assert Execution.objects.count() == 2
