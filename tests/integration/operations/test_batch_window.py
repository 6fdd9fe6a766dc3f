"""The window of a batch: no member starts further ahead of the first unfinished one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from django.db import connection

from queuemgr.base import sql
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.outcomes import Done, Skipped
from queuemgr.lifecycle import batch_window, lease_locks
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Execution, Lease, State, Worker
from queuemgr.operations import batches, controls, executions
from queuemgr.reporting import explain, queue_position
from queuemgr.reporting.stuck import stuck
from queuemgr.scheduling import route_heads
from tests.integration.operations.batch_fixtures import ANN, BROKEN, held, made, needs_two_connections, states

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_is_sent(sent: list[Any]) -> None:
    pass


def test_only_members_within_the_window_start_and_the_rest_follow_as_the_head_ends(
    played: Callable[..., Any],
) -> None:
    worker = played(slots=8)
    batch = made(keys="a b c d e", window=2)
    assert held(batch) == ["c", "d", "e"]
    first = {grant.key: grant for grant in worker.begin_all()}
    assert set(first) == {"a", "b"}
    assert worker.end(first["b"]) == []
    assert held(batch) == ["c", "d", "e"]
    handed = worker.end(first["a"])
    assert {g.key for g in handed} | {g.key for g in worker.begin_all()} == {"c", "d"}
    assert held(batch) == ["e"]


@pytest.mark.parametrize("end", [BROKEN, Skipped("nothing to do"), Done()])
def test_however_the_head_ends_the_window_moves_on(end: Any, played: Callable[..., Any]) -> None:
    worker = played()
    batch = made(keys="a b", window=1)
    [head] = worker.begin_all()
    handed = worker.end(head, end)
    assert [grant.key for grant in handed] == ["b"]
    assert held(batch) == []


def test_a_window_moves_although_the_process_that_finished_its_head_died(played: Callable[..., Any]) -> None:
    """What an ending asks for is noted in its own transaction, and done by whoever decides next."""
    worker = played()
    batch = made(keys="a b", window=1)
    worker.begin_all()
    Lease.objects.all().delete()
    from queuemgr.lifecycle import states as moves

    head = batch.executions.get(key="a")
    moves.move([head.pk], State.DONE, finished_at=database_now(), route_id=None)
    assert held(batch) == ["b"]
    dispatch()
    assert held(batch) == []
    assert Lease.objects.get().execution.key == "b"


def test_a_member_beyond_the_window_shows_its_reason_and_position_but_no_expected_start() -> None:
    batch = made("nightly", "a b c d e f", window=2)
    seen = explain.reasons()
    last = batch.executions.get(key="f")
    assert seen.of(last) == "beyond the window of batch nightly: 4 before it (window 2)"
    assert seen.not_before(last) is None
    found = queue_position.estimate(last, seen)
    assert found is not None
    assert (found.position, found.can_change_at) == (6, None)


def test_a_page_of_members_beyond_the_window_costs_two_more_statements(
    django_assert_num_queries: Any,
) -> None:
    members = [
        member
        for n in range(5)
        for member in made(f"b{n}", " ".join(f"{n}-{i}" for i in range(4)), window=1).executions.all()
    ]
    seen = explain.reasons()
    with django_assert_num_queries(2):
        reasons = [seen.of(member) for member in members]
    assert sum("beyond the window" in text for text in reasons) == 15


def test_a_drained_run_ends_although_a_batch_waits_behind_a_stopped_head(
    played: Callable[..., Any], configure: Callable[..., None]
) -> None:
    played()
    controls.pause("everything", ANN)
    made(keys="a b c", window=1)
    assert {stopped.kind for stopped in stuck()} == {"paused"}


def test_a_retried_member_beyond_the_window_waits_until_the_window_reaches_it() -> None:
    batch = made(keys="a b c d", window=2)
    last = batch.executions.filter(key="d")
    executions.set_run_after(last, batch.created_at, ANN)
    assert held(batch) == ["c", "d"]
    for stop, again in (
        (executions.cancel, executions.retry),
        (executions.skip, executions.retry_from_start),
    ):
        assert stop(last, ANN) == 1
        assert held(batch) == ["c"]
        assert again(last, ANN) == 1
        assert held(batch) == ["c", "d"]


def plan_of(statement: str, *parameters: object) -> str:
    if connection.vendor == "postgresql":
        sql.run("ANALYZE queuemgr_execution")
    explained = "EXPLAIN " if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN "
    with connection.cursor() as cursor:
        cursor.execute(explained + statement, parameters)
        return "\n".join(map(str, cursor.fetchall()))


def test_finding_the_head_of_a_large_batch_reads_a_few_rows_of_an_index() -> None:
    batch = made(keys=" ".join(f"k{n}" for n in range(600)), window=5)
    plan = plan_of(batch_window._HEADS.format(ids="%s"), batch.pk)
    assert plan.count("execution_batches") == 3, plan


def test_a_decision_reads_none_of_the_members_beyond_the_window() -> None:
    made(keys=" ".join(f"k{n}" for n in range(600)), window=5)
    now = database_now()
    statement = route_heads._ROUTES.format(
        beyond_window="FALSE", next_at=route_heads._NEXT_AT, condition="1 = 1"
    )
    plan = plan_of(statement, now, 8, now, 8, now)
    bounded = (
        "Index Cond: ((route_id = r.id) AND (run_after"
        if connection.vendor == "postgresql"
        else "INDEX execution_heads (route_id=? AND run_after"
    )
    assert plan.count(bounded) == 4, plan


@needs_two_connections
def test_racing_workers_start_members_in_order_and_none_twice(
    make_worker: Callable[..., Worker], in_threads: Callable[..., list[Any]], free_slots_of: Any
) -> None:
    from queuemgr.lifecycle import begin, finish
    from queuemgr.lifecycle.finish import Finish

    window = 3
    batch = made(keys=" ".join(f"k{n}" for n in range(20)), window=window)
    workers = [make_worker(slots=2, name=f"w{n}@test") for n in range(3)]
    dispatch()
    ahead: list[int] = []

    def work(number: int) -> None:
        idle = 0
        while idle < 200 and batch.executions.filter(state__in=("waiting", "leased")).exists():
            mine = list(Lease.objects.unstarted().values_list("pk", flat=True)[:1])
            begun: Sequence[Grant] = ()
            with suppress(lease_locks.RowsBusy):  # another one begins it
                begun = begin.begin(mine, workers[number].pk).grants
            idle = 0 if begun else idle + 1
            for grant in begun:
                seq = Execution.objects.get(pk=grant.execution_id).batch_seq or 0
                ahead.append(seq - batch_window.first_unfinished([batch.pk]).get(batch.pk, seq))
                finish.finish_batch([Finish(grant.lease_id, Done())], None)
                dispatch()

    in_threads(3, work)
    assert set(states(batch).values()) == {"done"}
    assert max(ahead) < window
    assert [r.seq for r in batches.results(batch)] == list(range(20))
