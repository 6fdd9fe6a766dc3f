"""Reads routes with the heads of their waiting work: all of them, or those a decision must look at.

Waiting work is read by index at the head of each route, and never counted further than one more than there
are idle slots, so the backlog does not matter. The one more says what stops a route that has started as much
as it may: then it is parked at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from queuemgr.base import sql
from queuemgr.flows.flow import all_phases
from queuemgr.scheduling import tenants
from queuemgr.scheduling.candidates import Queues
from queuemgr.scheduling.decision_input import Snapshot, WaitingRoute

_ROUTES = """
    SELECT r.id, r.phase, r.priority, r.resumed, r.retrying, r.limit_keys, r.resources, r.cost, r.uses,
           r.weight, r.is_async, r.served_at, r.head_at, r.parked_until IS NOT NULL,
           (SELECT e.run_after FROM queuemgr_execution e
             WHERE e.route_id = r.id AND e.state = 'waiting' AND e.run_after IS NOT NULL
             ORDER BY e.run_after, e.id LIMIT 1) AS head,
           (SELECT COUNT(*) FROM (
               SELECT 1 FROM queuemgr_execution d
                WHERE d.route_id = r.id AND d.state = 'waiting' AND d.run_after <= %s
                ORDER BY d.run_after, d.id LIMIT %s) AS heads) AS due,
           (SELECT COUNT(*) FROM (
               SELECT 1 FROM queuemgr_execution o
                WHERE o.route_id = r.id AND o.state = 'waiting' AND o.run_after <= %s
                ORDER BY o.run_after, o.id LIMIT %s) AS old) AS overdue,
           {beyond_window},
           {next_at}
      FROM queuemgr_route r
     WHERE {condition}
"""

_BEYOND_WINDOW = """
    EXISTS (SELECT 1 FROM queuemgr_execution b
             WHERE b.route_id = r.id AND b.state = 'waiting' AND b.run_after IS NULL)
"""


_NO_NEXT = "CAST(NULL AS timestamptz)"
_NEXT_AT = """
    (SELECT n.run_after FROM queuemgr_execution n
      WHERE n.route_id = r.id AND n.state = 'waiting' AND n.run_after > %s
      ORDER BY n.run_after, n.id LIMIT 1)
"""


class _RouteRow(NamedTuple):
    """The fields of a `WaitingRoute` but two."""

    id: int
    phase: str
    priority: int
    resumed: bool
    retrying: bool
    limit_keys: str
    resources: str
    cost: int
    uses: str
    weight: int
    is_async: bool
    served_at: datetime
    stored_head: datetime | None
    timer_due: bool
    head_at: datetime | None
    due: int
    overdue: int
    beyond_window: bool
    next_at: datetime | None


class _Subquery(NamedTuple):
    """A statement that selects ids of routes, and its parameters."""

    statement: str
    parameters: tuple[Any, ...]


_BY_SERVED_AT = """
    SELECT id FROM (SELECT id FROM queuemgr_route
     WHERE phase = %s AND priority = %s AND resumed = %s AND parked_on = '' {kind}
     ORDER BY served_at LIMIT %s) AS in_turn
"""

_BY_SERVED_AT_OF_EACH_TENANT = """
    SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY tenant ORDER BY served_at) AS nth
      FROM queuemgr_route
     WHERE phase = %s AND priority = %s AND resumed = %s AND parked_on = '' {kind}) AS in_turn
     WHERE nth <= %s
"""

_AGED = """
    SELECT id FROM (SELECT id FROM queuemgr_route
     WHERE parked_on = '' AND head_at < %s AND priority > 0 {kind}
     ORDER BY head_at LIMIT %s) AS aged
"""

_TIMER_DUE = """
    SELECT id FROM (SELECT id FROM queuemgr_route
     WHERE parked_until IS NOT NULL AND parked_until <= %s {kind}
     ORDER BY parked_until LIMIT %s) AS timer_due
"""


def read_all(fleet: Snapshot, look_ahead: int) -> list[WaitingRoute]:
    """Every route with waiting work, parked or not; due work is counted up to `look_ahead`."""
    statement = _ROUTES.format(beyond_window=_BEYOND_WINDOW, next_at=_NO_NEXT, condition="1 = 1")
    return [route for route in _read(fleet, statement, look_ahead) if not route.is_empty]


_OF_KIND = {None: "", False: "AND NOT is_async", True: "AND is_async"}


def read_candidates(
    fleet: Snapshot, queues: Queues, at_most: int, look_ahead: int, is_async: bool | None = None
) -> list[WaitingRoute]:
    """The unparked routes of these queues served longest ago, at most so many of each; the aged ones;
    and those whose parking timer has expired. With `is_async`, those of steps that are asynchronous, or
    that are not."""
    if not queues:
        return []
    subqueries = list(_subqueries(fleet, queues, at_most))
    ids = " UNION ALL ".join(subquery.statement for subquery in subqueries).format(kind=_OF_KIND[is_async])
    statement = _ROUTES.format(beyond_window="FALSE", next_at=_NEXT_AT, condition=f"r.id IN ({ids})")
    parameters = [value for subquery in subqueries for value in subquery.parameters]
    return _read(fleet, statement, look_ahead + 1, [fleet.now, *parameters])


def _subqueries(fleet: Snapshot, queues: Queues, at_most: int) -> Iterator[_Subquery]:
    starvation = fleet.ordering.starvation
    by_tenant = fleet.ordering.shares and tenants.any_tenants()
    by_served_at = _BY_SERVED_AT_OF_EACH_TENANT if by_tenant else _BY_SERVED_AT
    yield _Subquery(_TIMER_DUE, (fleet.now, at_most))
    if starvation:
        yield _Subquery(_AGED, (fleet.now - starvation, at_most))
    for name, queue in queues.items():
        for resumed in (True, False):
            if (name, resumed) not in fleet.fully_parked:
                yield _Subquery(by_served_at, (*queue, resumed, at_most))


def _read(
    fleet: Snapshot, statement: str, look_ahead: int, parameters: Sequence[Any] = ()
) -> list[WaitingRoute]:
    aged_since = fleet.now - (fleet.ordering.starvation or timedelta(days=36_500))
    counts = [fleet.now, look_ahead, aged_since, look_ahead]
    ranks = {name: phase.rank for name, phase in all_phases().items()}
    return [
        WaitingRoute(**row._asdict(), phase_rank=ranks.get(row.phase, len(ranks)), counted_to=look_ahead)
        for row in sql.rows(_RouteRow, statement, [*counts, *parameters])
    ]
