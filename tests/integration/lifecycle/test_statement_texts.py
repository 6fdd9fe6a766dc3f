"""The statements of begin, finish and decision have the same texts, however many executions they are for: the
driver and the server parse and plan each of them once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from queuemgr.base.queue_database import connection
from queuemgr.flows.flow import NewExecution, all_queues
from queuemgr.flows.outcomes import Done, Failed, Result, Snoozed
from queuemgr.lifecycle.begin import begin
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.lifecycle.finish import Finish, finish_batch
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.scheduler import FreeSlots
from queuemgr.models import Execution, Lease
from queuemgr.operations import controls
from tests.integration.scheduling.limited_work import ANN

pytestmark = pytest.mark.only_on("postgres", why="SQLite plans no statement beforehand")


def texts_of(act: Callable[[], Any]) -> list[str]:
    """The statements that this runs."""
    texts: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        texts.append(" ".join(sql.split()))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        act()
    return texts


@pytest.mark.parametrize(
    ("result", "most"), [(Done(), 10), (Snoozed(60, "later"), 15), (Failed("network", "away"), 21)]
)
def test_statements_are_the_same_for_any_number_of_executions(
    result: Result, most: int, played: Callable[..., Any], probes: Callable[..., Any], sent: list[Grant]
) -> None:
    """Once what is read once a process has been, and rows of routes are there."""
    worker = played(slots=9)
    probes(70)
    texts: dict[int, list[str]] = {}
    for count in (1, 2, 3, 5, 9):
        unstarted = list(Lease.objects.unstarted().values_list("pk", flat=True))[:count]
        began = texts_of(partial(begin, unstarted, worker.row.pk))
        free = FreeSlots(worker.row.pk, frozenset(all_queues()), count)
        ended = texts_of(partial(finish_batch, [Finish(pk, result) for pk in unstarted], free))
        assert len(began) <= 2
        assert len(ended) <= most or count == 1
        texts[count] = [*began, *ended]
        Lease.objects.started().delete()
        Execution.objects.filter(state="running").delete()
        dispatch()
    assert set(texts[3]) == set(texts[5]) == set(texts[9])


TWO = "1,000,000 tokens/minute; 1,000 usd/day"
FIVE = f"{TWO}; 1,000,000 tokens/day; 1,000 usd/month; 1,000,000,000 bytes/hour"


def test_five_allowances_take_the_statements_that_two_take(
    played: Callable[..., Any], probes: Callable[..., Any], sent: list[Grant]
) -> None:
    """Beyond those of no allowance: what is used of them, their clocks locked, and written."""
    worker = played(slots=8)
    controls.edit_limit("model", ANN, new=True, allowances=TWO)
    probes(70, limit_key="model", uses={"tokens": 10, "usd": 0.01, "bytes": 100})

    def ended(allowances: str) -> list[str]:
        controls.edit_limit("model", ANN, allowances=allowances)
        held = list(Lease.objects.values_list("pk", flat=True))
        begin(held, worker.row.pk)
        free = FreeSlots(worker.row.pk, frozenset(all_queues()), len(held))
        return texts_of(partial(finish_batch, [Finish(pk, Done()) for pk in held], free))

    none, two, five = ([ended(each), ended(each)][1] for each in ("", TWO, FIVE))  # the first: begun before
    assert len(two) == len(five) == len(none) + 3


@pytest.mark.parametrize("values", [{}, {"max_running": 1}])
def test_work_under_a_hundred_keys_takes_two_statements_more_than_work_under_none(
    values: dict[str, int], played: Callable[..., Any], sent: list[Grant]
) -> None:
    """What is used of the keys, and what is known of them; whether they are full or not."""
    worker = played(slots=4)
    controls.edit_limit("host:*", ANN, new=True, **{"max_running": 0, **values})
    enqueue_many("probe", [NewExecution(f"p{n}", {"limit_key": f"host:{n % 100}"}) for n in range(130)])
    dispatch()
    held = list(Lease.objects.values_list("pk", flat=True))
    begin(held, worker.row.pk)
    counts, texts = [], dict[int, set[str]]()
    for ended in (1, 1, 1, 3, 1, 2, 1):
        free = FreeSlots(worker.row.pk, frozenset(all_queues()), ended)
        ends, held = [Finish(pk, Done()) for pk in held[:ended]], held[ended:]
        ran = texts_of(partial(finish_batch, ends, free))
        counts.append(len(ran))
        texts[ended] = {text for text in ran if " heads AS " not in text}
        held = [*held, *Lease.objects.exclude(pk__in=held).values_list("pk", flat=True)]
    assert max(counts[1:]) <= 12
    assert texts[1] == texts[2] == texts[3]
