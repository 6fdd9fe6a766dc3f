"""The thread that begins and ends leases: what the database refuses fails alone, an outage is waited out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DataError, OperationalError, connections

from queuemgr.flows.outcomes import Done, Failed, Result
from queuemgr.lifecycle import lease_locks, leases, scheduler
from queuemgr.lifecycle.continuation import continuation_of
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Attempt, Execution, Lease
from queuemgr.scheduling import wakeups
from queuemgr.worker import group_commit
from queuemgr.worker.current_worker import CurrentWorker
from queuemgr.worker.group_commit import GroupCommitter, LeaseEnd

pytestmark = pytest.mark.django_db(transaction=True)
REFUSED = "what no row takes"


@pytest.fixture
def end_all(
    played: Callable[..., Any], probes: Callable[..., list[Execution]], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[LeaseEnd]]:
    """End one lease with each of these results, all at once, in a process of its own committer."""
    monkeypatch.setattr(group_commit, "RETRY_DELAYS", (0.01,))

    def end(*results: Result, ready: Callable[[], None] = lambda: None) -> list[LeaseEnd]:
        worker = played(slots=len(results))
        probes(len(results))
        grants = worker.begin_all()
        ready()
        committer = GroupCommitter(CurrentWorker(worker.row))
        ends: list[LeaseEnd | None] = [None] * len(results)

        def slot(number: int, grant: Grant) -> None:
            following = continuation_of(grant, results[number])
            ending = Finish(grant.lease_id, results[number], following, log="a line")
            ends[number] = committer.finish(grant, ending, 0.1, wants_next=False)
            connections.close_all()

        threads = [threading.Thread(target=slot, args=each, daemon=True) for each in enumerate(grants)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert all(ends), "a slot waits for ever"
        return [end for end in ends if end]

    return end


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    """Have the database refuse attempts that say `REFUSED`, with this error."""

    def refuse_with(error: Exception) -> None:
        record = leases.record_attempts

        def record_or_refuse(ends: Any, *others: Any) -> None:
            if any(end.error_message == REFUSED for end in ends.values()):
                raise error
            record(ends, *others)

        monkeypatch.setattr(leases, "record_attempts", record_or_refuse)

    return refuse_with


@pytest.mark.parametrize(
    "error", [DataError("too long"), OperationalError("no"), RuntimeError("a bug of ours")]
)
def test_a_result_the_database_refuses_fails_its_step_alone(
    error: Exception, refuse: Callable[[Exception], None], end_all: Callable[..., list[LeaseEnd]]
) -> None:
    refuse(error)
    ends = end_all(Failed("network", REFUSED), Done(), Done())
    assert sorted(str(end.outcome) for end in ends) == ["done", "done", "retried"]
    failed = Attempt.objects.get(outcome="retried")
    assert failed.error_kind == "unexpected"
    assert failed.error_message.startswith(f"its result could not be stored: {type(error).__name__}")
    assert failed.log == "a line"
    assert not Lease.objects.exists()


def test_an_outage_is_waited_out_however_often_it_fails(
    end_all: Callable[..., list[LeaseEnd]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other writes fail, too: so nothing is wrong with this one."""
    left = iter(range(30))
    lock_rows = lease_locks.lock_free_rows

    def away(lease_ids: Any) -> Any:
        if next(left, None) is not None:
            raise OperationalError("the database system is starting up")
        return lock_rows(lease_ids)

    monkeypatch.setattr(lease_locks, "lock_free_rows", away)
    monkeypatch.setattr(GroupCommitter, "_takes_writes", lambda self: False)
    assert [end.outcome for end in end_all(Done())] == ["done"]


@pytest.mark.parametrize(("late", "lost", "starts"), [(0, True, True), (60, False, True), (60, True, False)])
def test_a_step_does_not_start_if_its_lease_was_lost_before_the_answer_came(
    late: float, lost: bool, starts: bool, played: Callable[..., Any], probes: Callable[..., list[Execution]],
    monkeypatch: pytest.MonkeyPatch, configure: Callable[..., None],
) -> None:  # fmt: skip
    """One that is lost right after the answer is found out by its renewal."""
    configure(lease_seconds=60)
    begin, worker = group_commit.beginning.begin, played(slots=1)
    probes(1)

    def answered_late(lease_ids: Any, worker_id: int) -> Any:
        begun = begin(lease_ids, worker_id)
        if lost:
            Lease.objects.all().delete()
        monkeypatch.setattr(group_commit.time, "monotonic", lambda real=time.monotonic: real() + late)
        return begun

    monkeypatch.setattr(group_commit.beginning, "begin", answered_late)
    committer = GroupCommitter(CurrentWorker(worker.row))
    (lease_id,) = Lease.objects.values_list("pk", flat=True)
    assert (committer.begin(lease_id) is not None) == starts


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_what_the_database_undid_for_another_transaction_is_done_again_and_called_so(
    state: str,
    end_all: Callable[..., list[LeaseEnd]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """More often than a write may be refused: it is not the result's fault, and no outage."""
    left = iter(range(group_commit.CONFLICTS - 1))
    lock_rows = lease_locks.lock_free_rows

    def conflict(lease_ids: Any) -> Any:
        if next(left, None) is not None:
            error = OperationalError("could not serialize access due to concurrent update")
            error.sqlstate = state  # type: ignore[attr-defined]
            raise error
        return lock_rows(lease_ids)

    monkeypatch.setattr(lease_locks, "lock_free_rows", conflict)
    assert [end.outcome for end in end_all(Done())] == ["done"]
    assert "the database undid a transaction for another one (could not serialize" in caplog.text
    assert "does not answer" not in caplog.text


def test_a_store_the_database_interrupts_is_run_again_and_one_that_is_to_blame_fails(
    end_all: Callable[..., list[LeaseEnd]],
) -> None:
    runs: list[int] = []

    def deadlocks_once() -> None:
        runs.append(1)
        if len(runs) == 1:
            error = OperationalError("deadlock detected")
            error.sqlstate = "40P01"  # type: ignore[attr-defined]
            raise error

    def always_deadlocks() -> None:
        error = OperationalError("deadlock detected")
        error.sqlstate = "40P01"  # type: ignore[attr-defined]
        raise error

    ends = end_all(Done(store=deadlocks_once), Done(store=always_deadlocks))
    assert sorted(str(end.outcome) for end in ends) == ["done", "retried"]
    assert len(runs) == 2
    failed = Attempt.objects.get(outcome="retried")
    assert (failed.error_message, failed.log) == ("OperationalError: deadlock detected", "a line")


@pytest.mark.parametrize("error", [RuntimeError("a bug of ours"), OperationalError("deadlock detected")])
def test_a_decision_that_fails_costs_no_step_its_result(
    error: Exception, end_all: Callable[..., list[LeaseEnd]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made in the transaction of the endings; they are stored without it then."""

    def fail(*args: Any) -> Any:
        raise error

    def ready() -> None:
        monkeypatch.setattr(scheduler, "schedule", fail)

    assert [end.outcome for end in end_all(Done(), Done(), ready=ready)] == ["done", "done"]


def test_a_look_for_marks_that_fails_loses_nothing_that_was_granted(
    end_all: Callable[..., list[LeaseEnd]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> bool:
        raise OperationalError("server closed the connection")

    def ready() -> None:
        monkeypatch.setattr(wakeups, "has_mark", away)

    assert [end.outcome for end in end_all(Done(), Done(), ready=ready)] == ["done", "done"]
    assert not Attempt.objects.exclude(outcome="done").exists()


def no_space_on_postgres() -> OperationalError:
    error = OperationalError('could not extend file "base/5/49357": No space left on device')
    error.sqlstate = "53100"  # type: ignore[attr-defined]
    return error


NO_SPACE: dict[str, Callable[[], OperationalError]] = {
    "as PostgreSQL says it": no_space_on_postgres,
    "as SQLite says it": lambda: OperationalError("database or disk is full"),
}


@pytest.mark.parametrize("error", NO_SPACE.values(), ids=NO_SPACE)
def test_a_result_that_does_not_fit_on_the_disk_waits_while_others_are_stored(
    error: Callable[[], OperationalError],
    end_all: Callable[..., list[LeaseEnd]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More often than a write may be refused: what is smaller fits meanwhile, and it is nobody's fault."""
    monkeypatch.setattr(group_commit, "RETRY_DELAYS", (0.01,))
    left, record = iter(range(8)), leases.record_attempts
    left_of_store = iter(range(8))

    def store() -> None:
        if next(left_of_store, None) is not None:
            raise error()

    def record_if_it_fits(ends: Any, *others: Any) -> None:
        if any(end.error_message == REFUSED for end in ends.values()) and next(left, None) is not None:
            raise error()
        record(ends, *others)

    monkeypatch.setattr(leases, "record_attempts", record_if_it_fits)
    ends = end_all(Failed("network", REFUSED), Done(), Done(store=store))
    assert sorted(str(end.outcome) for end in ends) == ["done", "done", "retried"]
    assert Attempt.objects.get(outcome="retried").error_kind == "network"
