"""What running steps use is recorded together: exactly, and each of them hears of what is its own fault."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, connections, transaction

from queuemgr.base import meters
from queuemgr.base.errors import Aborted, LeaseLost, StepFailed
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.lifecycle import leases
from queuemgr.models import Execution, Lease
from queuemgr.worker import event_loop, usage_commits
from queuemgr.worker.usage_commits import UsageCommitter
from queuemgr.worker.work import Work
from tests.integration.worker.test_rows_somebody_locked import LEASE, locked

pytestmark = pytest.mark.django_db(transaction=True)
STEPS = 12
IN_MEMORY = "the tests' SQLite is in memory, where writers of one process lock each other out"
Works = Callable[[int], list[Work]]


@pytest.fixture
def works(played: Callable[..., Any], probes: Callable[..., list[Execution]]) -> Works:
    """So many running steps of a worker, each of which reserved 3 requests."""
    usage_commits.use(UsageCommitter())

    def begun(steps: int) -> list[Work]:
        worker = played(slots=steps)
        probes(steps, requests=3)
        return [Work(grant, AbortSignal()) for grant in worker.begin_all()]

    return begun


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many steps each statement records, of which the first waits until all others have reported."""
    sizes, record = list[int](), leases.record_spending

    def counted(spending: Any) -> Any:
        sizes.append(len(spending))
        committer = usage_commits._committer
        while len(sizes) == 1 and committer and committer._requests.qsize() < STEPS - len(spending):
            time.sleep(0.01)
        return record(spending)

    monkeypatch.setattr(leases, "record_spending", counted)
    yield sizes


def at_once(each: Callable[[Work], object], works: list[Work]) -> list[BaseException | None]:
    """Do this for all steps at the same time; what each raised."""

    def done(work: Work) -> None:
        try:
            each(work)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(works)) as slots:
        return [future.exception() for future in [slots.submit(done, work) for work in works]]


def in_async_slots(steps: Coroutine[Any, Any, None]) -> None:
    """Run this on a loop like theirs."""
    with asyncio.Runner() as runner:
        runner.get_loop().set_task_factory(event_loop._new_task)
        runner.run(steps)


def spent(work: Work) -> tuple[int, dict[str, int]]:
    lease = Lease.objects.get(pk=work.grant.lease_id)
    return lease.spent, dict(meters.from_text(lease.spent_uses))


def test_steps_that_report_at_once_share_a_statement(works: Works, statements: list[int]) -> None:
    running = works(STEPS)
    assert at_once(lambda work: work.spend(tokens=int(work.key[-1]) + 1), running) == [None] * STEPS
    assert [spent(work)[1] for work in running] == [{"tokens": int(work.key[-1]) + 1} for work in running]
    assert len(statements) <= 2
    assert sum(statements) == STEPS


def test_threads_of_one_step_add_up_exactly(works: Works) -> None:
    (work,) = works(1)
    assert at_once(lambda same: same.spend(tokens=5, usd="0.25"), [work] * 8) == [None] * 8
    assert at_once(lambda same: same.record_requests(), [work] * 3) == [None] * 3
    assert spent(work) == (3, {"tokens": 40, "usd": 2_000_000})


@pytest.mark.only_on("postgres", why=IN_MEMORY)
def test_each_step_hears_of_its_own_fault_and_the_others_are_recorded(works: Works) -> None:
    running = works(4)
    Lease.objects.filter(pk=running[0].grant.lease_id).delete()
    sends = dict(zip((work.key for work in running), (1, 4, 3, 1), strict=True))
    gone, too_many, *fine = at_once(lambda work: work.record_requests(sends[work.key]), running)
    assert isinstance(gone, LeaseLost)
    assert isinstance(too_many, StepFailed)
    assert too_many.kind == "over_reserved"
    assert fine == [None, None]
    assert [spent(work)[0] for work in running[1:]] == [0, 3, 1]


def test_more_meters_than_fit_are_refused_to_the_step_that_uses_them(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = works(2)
    monkeypatch.setattr(meters, "_meters", dict(meters._meters))
    many = {meters.register_meter(meters.Meter(f"units_of_application_{n}")).name: 10**9 for n in range(9)}
    uses = {running[0].key: many, running[1].key: {"tokens": 7}}
    refused, fine = at_once(lambda work: work.spend(**uses[work.key]), running)
    assert "fit" in str(refused)
    assert fine is None
    assert spent(running[1])[1] == {"tokens": 7}


@pytest.mark.only_on("postgres", why="needs row locks and two connections")
def test_a_row_somebody_has_locked_holds_up_its_own_step_alone(works: Works) -> None:
    held, free = works(2)
    with locked(LEASE, held.grant.execution_id) as release, ThreadPoolExecutor(1) as slot:
        waiting = slot.submit(at_once, lambda work: work.record_requests(2), [held])
        free.record_requests(2)
        assert spent(free)[0] == 2
        assert not waiting.done()
        release()
        assert waiting.result() == [None]
    assert spent(held)[0] == 2


def test_a_step_in_a_transaction_records_in_it(works: Works) -> None:
    """Waiting for another connection would be waiting for itself, where one writes at a time."""
    (work,) = works(1)
    with transaction.atomic():
        Execution.objects.update(error_message="written")
        work.spend(requests=1, tokens=3)
        transaction.set_rollback(True)
    assert spent(work) == (0, {})


def test_async_steps_share_statements_too(works: Works, statements: list[int]) -> None:
    running = works(STEPS)

    async def all_of_them() -> None:
        await asyncio.gather(*(work.aspend(tokens=9) for work in running))

    in_async_slots(all_of_them())
    assert [spent(work)[1] for work in running] == [{"tokens": 9}] * STEPS
    assert len(statements) <= 2


@pytest.mark.only_on("postgres", why=IN_MEMORY)
@pytest.mark.parametrize("requests", [3_000_000_000, 2**31 - 1, 2**53 - 1, "x"])
def test_a_number_that_no_row_takes_is_the_fault_of_one_step(
    requests: Any, works: Works, statements: list[int]
) -> None:
    running = works(STEPS)
    faulty = running[0]
    amounts = {work.key: 1 for work in running} | {faulty.key: requests}
    refused, *fine = at_once(lambda work: work.record_requests(amounts[work.key]), running)
    assert refused is not None
    assert fine == [None] * (STEPS - 1)
    assert [spent(work)[0] for work in running] == [0, *[1] * (STEPS - 1)]


def test_a_step_whose_own_loop_has_ended_holds_up_nobody(works: Works) -> None:
    """It gave up before the answer came; its transaction, if it has one, is its own."""
    hasty, other = works(2)

    async def gives_up() -> None:
        await asyncio.wait_for(hasty.aspend(tokens=1), 0.0)

    with suppress(TimeoutError), asyncio.Runner() as runner:
        runner.get_loop().set_task_factory(event_loop._new_task)
        runner.run(gives_up())
    other.spend(tokens=2)
    assert spent(other)[1] == {"tokens": 2}


def test_an_async_function_called_in_a_transaction_records_in_it(works: Works) -> None:
    (work,) = works(1)
    with transaction.atomic():
        Execution.objects.update(error_message="written")
        async_to_sync(work.aspend)(tokens=3)
        transaction.set_rollback(True)
    assert spent(work) == (0, {})


@pytest.mark.only_on("postgres", why="a file's answer is always known")
def test_what_could_not_be_recorded_is_not_part_of_the_total(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work,) = works(1)

    def away(spending: Any) -> Any:
        raise OperationalError("the database system is shutting down")

    with monkeypatch.context() as broken:
        broken.setattr(leases, "record_spending", away)
        with pytest.raises(OperationalError, match="could not be recorded"):
            work.spend(tokens=5)
    work.spend(tokens=2)
    assert spent(work)[1] == {"tokens": 2}


def test_a_step_that_waits_is_aborted(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    (work,) = works(1)
    go = threading.Event()
    monkeypatch.setattr(leases, "record_spending", lambda spending: go.wait(60) and set())
    threading.Timer(0.1, work.signal.abort, ["cancelled"]).start()
    try:
        with pytest.raises(Aborted):
            work.spend(tokens=5)
    finally:
        go.set()
