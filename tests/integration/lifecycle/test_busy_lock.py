"""Who finds the scheduler lock busy leaves its decision to the holder, and none is missed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import DatabaseError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from proof.faults.database import CAPPED_QUEUES, advisory_locks, chosen, taking
from proof.plan import CAPPED, MOST_WAITING
from queuemgr.base import scheduler_lock, sql
from queuemgr.base.scheduler_lock import SCHEDULER_LOCK, SchedulerLockBusy, hold_scheduler_lock
from queuemgr.flows.flow import HIGH
from queuemgr.lifecycle import dispatch as dispatching
from queuemgr.lifecycle import redispatch_timer
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Execution, Lease, Queue, State, Worker
from queuemgr.scheduling import wakeups
from queuemgr.worker import drain_orders

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.only_on("postgres", why="on SQLite whoever is in a transaction has the lock"),
]
MakeWorker = Callable[..., Worker]


class Holder:
    """Another process that holds the lock: a session of its own, in a transaction."""

    def __init__(self, session: BaseDatabaseWrapper) -> None:
        self._session = session

    def run(self, statement: str, *parameters: Any) -> None:
        with self._session.cursor() as cursor:
            cursor.execute(statement, parameters)

    def take(self) -> None:
        self.run("BEGIN")
        self.run("SELECT pg_advisory_xact_lock(%s)", SCHEDULER_LOCK)

    def commit(self) -> None:
        """As every holder: commit, then look for marks."""
        self.run("COMMIT")
        scheduler_lock._after_release()


@pytest.fixture
def holder() -> Iterator[Holder]:
    session = connections.create_connection("default")
    yield Holder(session)
    session.close()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def waiting() -> int:
    return Execution.objects.filter(state=State.WAITING).count()


def test_a_dispatch_that_finds_the_lock_busy_returns_and_the_holder_decides_after_its_commit(
    holder: Holder, make_worker: MakeWorker, sent: list[Any]
) -> None:
    make_worker(slots=3)
    holder.take()
    with within(2):
        enqueue("probe", "one")
        assert dispatch() == 0 and waiting() == 1
    holder.commit()
    assert [grant.key for grant in sent] == ["one"] and not wakeups.has_mark()


@pytest.mark.parametrize("free_before", ["first try", "mark", "second try", "return"])
def test_no_change_is_missed_wherever_the_holder_commits_between_the_two_tries(
    free_before: str, holder: Holder, make_worker: MakeWorker, sent: list[Any], monkeypatch: Any
) -> None:
    make_worker(slots=3)
    holder.take()
    steps = iter(["first try", "mark", "second try"])

    def before(act: Callable[..., Any]) -> Callable[..., Any]:
        def do(*args: Any) -> Any:
            if next(steps, None) == free_before:
                holder.commit()
            return act(*args)

        return do

    monkeypatch.setattr(dispatching, "_decide", before(dispatching._decide))
    monkeypatch.setattr(wakeups, "leave_mark", before(wakeups.leave_mark))
    enqueue("probe", "one")
    if free_before == "return":
        holder.commit()
    assert [grant.key for grant in sent] == ["one"] and waiting() == 0


def test_nothing_is_left_waiting_or_marked_after_many_enqueue_and_decide_at_once(
    make_worker: MakeWorker, sent: list[Any], in_threads: Callable[..., list[Any]]
) -> None:
    """Without a tick and without a timer."""
    make_worker(slots=500)

    def enqueue_some(number: int) -> None:
        for turn in range(12):
            enqueue("probe", f"{number}-{turn}")

    in_threads(6, enqueue_some)
    assert waiting() == 0 and len(sent) == 72 and not wakeups.has_mark()


@pytest.mark.parametrize("ends", ["commits", "rolls back"])
def test_every_transaction_that_waited_for_the_lock_looks_for_marks_once_it_commits(
    ends: str, make_worker: MakeWorker, sent: list[Any], in_threads: Callable[..., list[Any]]
) -> None:
    """One that rolls back does not: the mark stays for the next decision."""
    make_worker(slots=3)
    with pytest.raises(ValueError) if ends == "rolls back" else transaction.atomic(), hold_scheduler_lock():
        in_threads(1, lambda number: enqueue("probe", "one"))
        assert waiting() == 1
        if ends == "rolls back":
            raise ValueError
    assert (waiting() == 0) == (ends == "commits")
    assert dispatch() == (ends == "rolls back")


def test_a_process_decides_for_others_a_bounded_number_of_times_in_a_row(
    make_worker: MakeWorker, monkeypatch: Any
) -> None:
    decisions, later = [], []
    monkeypatch.setattr(
        dispatching, "_decide", lambda *given: decisions.append(1) or dispatching.scheduler.NO_GRANTS
    )
    monkeypatch.setattr(redispatch_timer, "schedule_redispatch", later.append)
    wakeups.leave_mark()  # which these decisions never delete
    dispatch()
    assert len(decisions) == dispatching.MOST_ROUNDS and later[-1] == 0.0


def test_who_needs_the_lock_waits_with_a_bound_and_reads_who_holds_it(
    holder: Holder, monkeypatch: Any
) -> None:
    monkeypatch.setattr(scheduler_lock, "WAIT_MS", 50)
    holder.run("SET application_name = 'sluicegate worker'")
    holder.take()
    with pytest.raises(SchedulerLockBusy) as busy, hold_scheduler_lock():
        pass
    assert "busy for 0.05 s, held by pid " in str(busy.value)
    assert "(sluicegate worker, client 127.0.0.1), idle for 0 s" in str(busy.value)


def test_waiting_for_the_lock_leaves_the_callers_own_lock_timeout_as_it_was(holder: Holder) -> None:
    with transaction.atomic():
        sql.value("SELECT set_config('lock_timeout', '1234ms', true)")
        holder.take()
        assert scheduler_lock.try_acquire(20) is None
        assert sql.value("SHOW lock_timeout") == "1234ms"


def test_a_drained_worker_hands_back_leases_while_the_lock_is_busy(
    holder: Holder, make_worker: MakeWorker, sent: list[Any]
) -> None:
    """The thread that does it stores the results of steps, too."""
    make_worker(slots=1)
    enqueue("probe", "one")
    holder.take()
    with within(2):
        drain_orders.hand_back(Lease.objects.values_list("pk", flat=True))
    assert not Lease.objects.exists()


def test_a_lock_timeout_holds_for_its_block_only_and_says_how_long_it_waited(holder: Holder) -> None:
    with transaction.atomic():
        sql.value("SELECT set_config('lock_timeout', '1234ms', true)")
        with scheduler_lock.lock_timeout(50):
            assert sql.value("SHOW lock_timeout") == "50ms"
        assert sql.value("SHOW lock_timeout") == "1234ms"
        holder.take()
        with (
            pytest.raises(scheduler_lock.LockTimeout, match=r"busy for 0\.02 s"),
            scheduler_lock.lock_timeout(20),
        ):
            sql.value("SELECT pg_advisory_xact_lock(%s)", [scheduler_lock.SCHEDULER_LOCK])
        assert sql.value("SHOW lock_timeout") == "1234ms"


def test_a_session_lock_left_behind_by_anybody_holds_up_no_caller_for_long(
    holder: Holder, make_worker: MakeWorker, sent: list[Any]
) -> None:
    """As one that leaked through a pooler."""
    make_worker(slots=3)
    holder.run("SELECT pg_advisory_lock(%s)", SCHEDULER_LOCK)
    with within(2):
        enqueue("probe", "one")
    held = scheduler_lock.lock_holder()
    assert held is not None and held.idle is not None
    holder.run("SELECT pg_advisory_unlock_all()")
    assert scheduler_lock.lock_holder() is None
    assert dispatch() == 1


def test_the_lock_of_a_process_frozen_while_deciding_is_released_with_its_session(monkeypatch: Any) -> None:
    monkeypatch.setattr(scheduler_lock, "FROZEN_SECONDS", 0.3)
    with pytest.raises(DatabaseError) as ended, hold_scheduler_lock():
        time.sleep(0.6)
        sql.value("SELECT 1")
    assert sql.is_away(ended.value), "a worker that resumes gets a new session"
    sql.connection.close()
    with transaction.atomic():
        assert scheduler_lock.try_acquire()


def test_only_the_transaction_that_holds_the_lock_is_ended_when_idle() -> None:
    """A pooler hands the session on to others, and refuses the setting at the start."""
    with hold_scheduler_lock():
        assert sql.value("SHOW idle_in_transaction_session_timeout") == "30s"
    assert sql.value("SHOW idle_in_transaction_session_timeout") == "0"


def test_limits_of_time_are_set_as_a_transaction_begins_and_a_lost_session_is_an_outage(
    holder: Holder,
) -> None:
    with transaction.atomic():
        scheduler_lock.end_when_frozen(7, row_wait_ms=1234)
        assert sql.value("SHOW idle_in_transaction_session_timeout") == "7s"
        assert sql.value("SHOW lock_timeout") == "1234ms"
    assert sql.value("SHOW lock_timeout") == "0"
    holder.run("SELECT pg_terminate_backend(%s, 60000)", sql.value("SELECT pg_backend_pid()"))
    with pytest.raises(DatabaseError) as ended, transaction.atomic():
        scheduler_lock.end_when_frozen()
    assert sql.is_away(ended.value)
    sql.connection.close()


def decide() -> None:
    with hold_scheduler_lock():
        pass


def enqueue_into_a_capped_queue() -> None:
    enqueue("probe", "one", {"phase": "prep"}, priority=HIGH)


@pytest.mark.parametrize(("held", "waits"), [(0, decide), (1, enqueue_into_a_capped_queue)])
def test_the_locks_that_the_proof_holds_are_those_the_queue_waits_for(
    held: int, waits: Callable[[], None], holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, _ = Queue.objects.update_or_create(
        name=CAPPED[0], defaults={"phase": "prep", "priority": HIGH, "max_pending": MOST_WAITING}
    )
    monkeypatch.setattr(scheduler_lock, "WAIT_MS", 50)
    waits()
    Execution.objects.all().delete()
    capped = sql.column(CAPPED_QUEUES)
    assert capped == [queue.pk]
    statement, lock = taking(chosen(advisory_locks(capped), held))
    holder.run(statement, *lock)
    with pytest.raises(SchedulerLockBusy):
        waits()
