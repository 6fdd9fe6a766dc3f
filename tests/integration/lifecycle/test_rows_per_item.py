"""How many rows PostgreSQL reads for each item does not depend on how many wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from queuemgr.base import sql
from queuemgr.flows.flow import HIGH, LOW, NORMAL, NewExecution
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.lifecycle.leases import Grant, revoke_unstarted
from queuemgr.models import Lease, Limit
from tests.integration.conftest import PlayedWorker

pytestmark = pytest.mark.only_on("postgres", why="SQLite does not count the rows it reads")

Load = Callable[[int], dict[str, Any]]
"""The payload of the nth item."""

FEW, MANY = 300, 1500
"""Even of few, more wait on each route than a decision counts: one more than there are idle slots."""

ITEMS = 20

READ = """
    SELECT (SELECT COALESCE(SUM(seq_tup_read), 0) FROM pg_stat_user_tables WHERE relname LIKE 'queuemgr%%')
         + (SELECT COALESCE(SUM(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE relname LIKE 'queuemgr%%')
"""


@pytest.fixture
def as_if_tables_were_large(played: Callable[..., PlayedWorker]) -> Iterator[None]:
    """Tables as small as these are read as a whole now and then, whatever their indexes, as the statistics of
    the moment have it."""
    sql.run("SET enable_seqscan = off")
    yield
    sql.run("RESET enable_seqscan")


def _rows_read() -> int:
    sql.value("SELECT pg_stat_force_next_flush()::text")
    sql.value("SELECT pg_stat_clear_snapshot()::text")
    return int(sql.value(READ))


def one_route(number: int) -> dict[str, Any]:
    return {}


def one_key(number: int) -> dict[str, Any]:
    return {"limit_key": "key:a"}


def many_keys(number: int) -> dict[str, Any]:
    return {"limit_key": f"key:{number % 4}"}


def several_phases_and_tenants(number: int) -> dict[str, Any]:
    return {"phase": ("prep", "expensive", "wrap")[number % 3], "tenant": f"t{number % 2}"}


def _enqueue(prefix: str, backlog: int, load: Load) -> None:
    for rank in (HIGH, NORMAL, LOW):
        items = [NewExecution(f"{prefix}-{rank}-{n}", load(n)) for n in range(backlog // 3)]
        enqueue_many("probe", items, priority=rank)


@pytest.mark.usefixtures("as_if_tables_were_large")
@pytest.mark.parametrize("load", [one_route, one_key, many_keys, several_phases_and_tenants])
def test_the_rows_read_for_an_item_do_not_grow_with_the_backlog(
    played: Callable[..., PlayedWorker], sent: list[Grant], configure: Callable[..., None], load: Load
) -> None:
    """Three workers, a cap of two; some starts are assigned to a freed slot, some come as messages. Plans
    differ a little with what the database knows of its tables: a backlog that is read would be five times."""
    configure(high_priority_reserved=0, daily_budget=0)
    workers = [played(slots=4) for _ in range(3)]
    Limit.objects.filter(name="fleet").update(max_running=2)
    Limit.objects.create(name="key:*", max_running=1)
    few = _rows_for_an_item("few", FEW, load, workers)
    many = _rows_for_an_item("many", MANY, load, workers)
    assert many < 2 * few + 50


def _rows_for_an_item(prefix: str, backlog: int, load: Load, workers: list[PlayedWorker]) -> float:
    _enqueue(prefix, backlog, load)
    sql.run("ANALYZE queuemgr_execution, queuemgr_route, queuemgr_lease, queuemgr_attempt")
    dispatch()
    running = workers[0].begin_all()
    before = _rows_read()
    for number in range(ITEMS):
        worker = workers[number % len(workers)]
        running += worker.end(running.pop(0), next_too=bool(number % 2))
        running += worker.begin_all()
    read = _rows_read() - before
    while running:
        workers[0].end(running.pop(), next_too=False)
    revoke_unstarted(Lease.objects.values_list("pk", flat=True))
    return read / ITEMS
