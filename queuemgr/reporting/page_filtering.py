"""The filter of executions for a page that somebody waits for, in bounded time.

Three filters would look at every row there is: here they look at the newest only. Whoever has the time
(a bulk action, an export) uses `filtering` itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Max, Min, Q

from queuemgr.base.loose_index_scan import loose_index_scan
from queuemgr.models import (
    FINAL,
    HELD,
    Attempt,
    Execution,
    ExecutionQuerySet,
    Lease,
    RouteLimit,
    State,
)
from queuemgr.reporting.filtering import executions_matching, listed, moment_of, narrowed

ATTEMPTS_LOOKED_AT = 20_000
"""How many of the newest attempts a page looks through for ended work of a limit or of a worker."""

FAILURES_LOOKED_AT = 5_000
"""How many of the newest failures of each kind a page searches the messages of."""

FOUND_AT_MOST = 1_000
ROUTES_AT_MOST = 5_000


def on_a_page(found: ExecutionQuerySet, asked: Mapping[str, Any]) -> ExecutionQuerySet:
    """Those of `found` this filter meets, found in bounded time: see the constants above.

    Raises `BadInput` as `executions_matching` does.
    """
    executions_matching(asked)
    found = narrowed(found, {name: asked[name] for name in asked if name not in _BOUNDED})
    for name in _BOUNDED.keys() & asked.keys():
        found = found.filter(_BOUNDED[name](asked))
    if after := asked.get("created_after"):
        found = found.filter(pk__gte=_ids_about(moment_of("created_after", after) - HOUR)[0])
    if before := asked.get("created_before"):
        found = found.filter(pk__lte=_ids_about(moment_of("created_before", before) + HOUR)[1])
    return found


HOUR = timedelta(hours=1)
"""How far clocks and long transactions may put the times of executions out of the order of their ids."""

COARSE = 10_000


def _ids_about(moment: datetime) -> tuple[int, int]:
    """Ids within `COARSE` of each other between which this moment lies: times have no index, and grow
    with ids."""
    ends = Execution.objects.aggregate(low=Min("pk"), high=Max("pk"))
    low, high = ends["low"] or 0, ends["high"] or 0
    while high - low > COARSE:
        middle = (low + high) // 2
        later = Execution.objects.filter(pk__gte=middle).order_by("pk")
        if later.values_list("created_at", flat=True)[0] < moment:
            low = middle
        else:
            high = middle
    return low, high


def _at_limit(asked: Mapping[str, Any]) -> Q:
    name = asked["limit"]
    routes = RouteLimit.objects.filter(name=name).values_list("route_id", flat=True)
    held = Lease.objects.filter(listed(name)).values_list("execution_id", flat=True)
    waiting = Q(state=State.WAITING, route_id__in=list(routes[:ROUTES_AT_MOST]))
    ended = Q(pk__in=_ran_lately(listed(name)), state__in=FINAL)
    return waiting | Q(pk__in=list(held[:FOUND_AT_MOST])) | ended


def _at_worker(asked: Mapping[str, Any]) -> Q:
    held = Lease.objects.filter(worker__name=asked["worker"])
    ran = Q(pk__in=_ran_lately(Q(worker=asked["worker"]))) & ~Q(state__in=HELD)
    return ran | Q(pk__in=list(held.values_list("execution_id", flat=True)[:FOUND_AT_MOST]))


def _ran_lately(which: Q) -> list[int]:
    """Executions whose last attempt was such a one, among those of the newest attempts."""
    newest = Attempt.objects.order_by("-pk").values_list("pk", flat=True)
    floor = newest[ATTEMPTS_LOOKED_AT : ATTEMPTS_LOOKED_AT + 1].first() or 0
    alike = Attempt.objects.filter(which, pk__gt=floor).order_by("-pk")
    newest_first = list(alike.values_list("execution_id", "pk")[: FOUND_AT_MOST * 2])
    return _still_last(dict(reversed(newest_first)))


def _still_last(found: Mapping[int, int]) -> list[int]:
    later = Attempt.objects.filter(execution__in=list(found)).order_by("pk")
    last = dict(later.values_list("execution_id", "pk"))
    return [execution for execution, pk in found.items() if last[execution] == pk][:FOUND_AT_MOST]


def _with_text(asked: Mapping[str, Any]) -> Q:
    known = "error_kind" in asked
    kinds = (
        [asked["error_kind"]] if known else loose_index_scan(Execution, "error_kind")["error_kind"]
    )
    found: list[int] = []
    for kind in kinds:
        failures = executions_matching({"error_kind": kind}).order_by("-pk")
        newest = failures.values_list("pk", "error_message")[:FAILURES_LOOKED_AT]
        wanted = asked["text"].casefold()
        found += [pk for pk, message in newest.iterator() if wanted in message.casefold()]
    return Q(pk__in=sorted(found, reverse=True)[:FOUND_AT_MOST])


_BOUNDED = {"limit": _at_limit, "worker": _at_worker, "text": _with_text}
