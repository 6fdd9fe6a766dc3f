"""The position of a waiting execution in its queue, and when it is likely to start and to finish.

An estimate for people, unknown to admission. The position counts what would start before it in its own
queue by admission's order: resumed work, then routes in turn, then age. Work of other queues counts by the
measured rate, which is what they left to this queue. Approximations: routes take turns one by one (tenants'
shares, aging and reservations for heavy work are ignored); work parked on a limit this one does not wait for
is ignored; retries not yet due do not count.

Counted by index and bounded: at most `MAX_OLDER` of its own route, and of at most `MAX_ROUTES` others no more
than `MAX_PER_ROUTE` each. Beyond, the position is at least what was counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from queuemgr.base import sql
from queuemgr.base.errors import RuleFailed, UnknownFlow, UnknownStep
from queuemgr.base.time_text import moment_text
from queuemgr.flows.flow import queue_name
from queuemgr.models import Execution, Route, State, Worker
from queuemgr.reporting import explain, throughput
from queuemgr.reporting.estimate_ranges import Kind, about, with_ranges
from queuemgr.reporting.explain import RouteReasons
from queuemgr.reporting.throughput import Starts, StepPace
from queuemgr.scheduling.decision_input import Reason
from queuemgr.scheduling.step_rules import step_after

MAX_OLDER = 50_000
MAX_ROUTES = 1_000
MAX_PER_ROUTE = 200

MAX_AHEAD = timedelta(days=365)
"""An estimate further ahead than this is not given."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Position, likely start and likely end of one execution; where a time is None, `unknown` says why.

    `position` counts those that start before it, itself included, and is a lower bound where not all were
    counted. `can_change_at` is the earliest end time of a reason that stops it.
    """

    queue: str
    position: int
    position_is_at_least: bool
    recent_starts: Starts
    starts_at: datetime | None
    finishes_at: datetime | None
    can_change_at: datetime | None
    unknown: str = ""

    def __str__(self) -> str:
        """`position 12 in print.normal, starts about 14:32:07 UTC (8 of 10: …), done about …; 38 started in
        the last 10 minutes`."""
        at_least = self.position_is_at_least
        text = f"position {'at least ' if at_least else ''}{self.position} in {self.queue}"
        now = datetime.now(UTC)
        times: tuple[tuple[str, datetime | None, Kind], ...] = (
            ("starts", self.starts_at, "start"),
            ("done", self.finishes_at, "end of one"),
        )
        for what, at, of in times:
            if at:
                when = f"not before {moment_text(at, now)}" if at_least else f"about {about(at, of, now)}"
                text += f", {what} {when}"
        if self.starts_at:
            text += f"; {self.recent_starts}"
        return f"{text}; {self.unknown}" if self.unknown else text

    def as_data(self, now: datetime) -> dict[str, Any]:
        """With stable names; what is a lower bound has no range."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        ranges = with_ranges(plain, now, **_RANGED)
        return ranges | dict.fromkeys(ranges.keys() - plain.keys()) if self.position_is_at_least else ranges


class Estimated(NamedTuple):
    """A time, or why it is unknown."""

    at: datetime | None = None
    unknown: str = ""


def estimate(execution: Execution, route_reasons: RouteReasons) -> Estimate | None:
    """The estimate for one execution; None for one that does not wait."""
    if execution.state != State.WAITING or execution.route is None:
        return None
    route = execution.route
    reasons = route_reasons.by_route.get(route.pk, ())
    position, at_least = _position(execution, route, route_reasons.now)
    recent = throughput.starts(route.phase, route.priority, route_reasons.now)
    start, end = _start(execution, position, recent, reasons, route_reasons.now), Estimated()
    if start.at:
        end = _finish(execution, start.at, throughput.step_paces())
    later = execution.run_after if execution.run_after and execution.run_after > route_reasons.now else None
    return Estimate(
        queue=queue_name(route.phase, route.priority),
        position=position,
        position_is_at_least=at_least,
        recent_starts=recent,
        starts_at=start.at,
        finishes_at=end.at,
        can_change_at=later or min((reason.until for reason in reasons if reason.until), default=None),
        unknown=start.unknown or end.unknown,
    )


def _start(
    execution: Execution, position: int, recent: Starts, reasons: Iterable[Reason], now: datetime
) -> Estimated:
    """Estimated start from the recent rate, after all reasons with an end time; or why there is none."""
    if stopped := stopped_for_good(execution, reasons, now):
        return Estimated(unknown=stopped)
    if not recent.count:
        queue = queue_name(execution.phase, execution.priority)
        return Estimated(unknown=f"no start to expect: nothing started in {queue} in the last hour")
    wait = position / recent.per_second
    if wait > MAX_AHEAD.total_seconds():
        return Estimated(unknown=f"no start to expect within a year: {recent}")
    ends = (reason.until for reason in reasons if reason.until)
    return Estimated(max((_due(execution, now), *ends)) + timedelta(seconds=wait))


def stopped_for_good(execution: Execution, reasons: Iterable[Reason], now: datetime) -> str:
    """What stops it until a person does something, as a sentence; empty when nothing does."""
    for reason in reasons:
        unserved = reason.kind in ("workers", "drained") and not _is_served(execution, now)
        if unserved or (reason.kind == "paused" and reason.until is None):
            return f"no start to expect: {reason.text}"
    return ""


def _due(execution: Execution, now: datetime) -> datetime:
    """Its due time, at least now; now for members beyond the window of their batch."""
    return max(now, execution.run_after or now)


def _is_served(execution: Execution, now: datetime) -> bool:
    queue = queue_name(execution.phase, execution.priority)
    available = Worker.objects.available(now)
    return any(queue in queues for queues in available.values_list("queues", flat=True))


def _finish(execution: Execution, starts_at: datetime, paces: dict[tuple[str, str], StepPace]) -> Estimated:
    """Its remaining steps at their median run times, with the median waits between them."""
    seconds = 0.0
    try:
        remaining = _remaining(execution)
    except (UnknownFlow, UnknownStep, RuleFailed) as error:
        return Estimated(unknown=f"no end to expect: {error}")
    for number, (phase, step) in enumerate(remaining):
        measured = paces.get((phase, step))
        if measured is None:
            return Estimated(unknown=f"no end to expect: no run of {phase}/{step} was measured lately")
        seconds += measured.runs + (measured.waits if number else 0.0)
    return Estimated(starts_at + timedelta(seconds=seconds))


def _remaining(execution: Execution) -> list[tuple[str, str]]:
    """The steps left, this one first, as far as its present inputs decide."""
    remaining = [(execution.phase, execution.step)]
    while following := step_after(execution.flow, *remaining[-1], execution.inputs):
        remaining.append((following.phase.name, following.step.name))
    return remaining


_OLDER = """
    SELECT COUNT(*) FROM (
        SELECT 1 FROM queuemgr_execution
         WHERE route_id = %s AND state = 'waiting'
           AND {before} LIMIT %s) AS older
"""

_OF_OTHERS = """
    SELECT {turns}, COUNT(*), SUM(n), MAX(n) FROM (
        SELECT (SELECT COUNT(*) FROM (
                   SELECT 1 FROM queuemgr_execution e
                    WHERE e.route_id = r.id AND e.state = 'waiting' AND e.run_after <= %s
                    LIMIT {most}) AS heads) AS n
          FROM queuemgr_route r
         WHERE r.phase = %s AND r.priority = %s AND r.resumed = %s AND r.id <> %s
           AND r.parked_on IN ('', %s) AND {served}
         LIMIT {routes}) AS others
"""


def _position(execution: Execution, route: Route, now: datetime) -> tuple[int, bool]:
    """Its position, and whether that is a lower bound."""
    older = _older(execution, route)
    others = [
        _Others("r.served_at < %s", (route.served_at,), older + 1, route.resumed),
        _Others("r.served_at >= %s", (route.served_at,), older, route.resumed),
    ]
    if not route.resumed:
        others.append(_Others("r.served_at IS NOT NULL", (), MAX_OLDER, resumed=True))
    elsewhere, cut_off = _count(others, route, _due(execution, now))
    return 1 + older + elsewhere, older >= MAX_OLDER or cut_off


def _older(execution: Execution, route: Route) -> int:
    """How many executions start earlier on its own route: those due earlier; for members beyond the window of
    their batch, all others."""
    pk, due = execution.pk, execution.run_after
    values: tuple[Any, ...]
    if due is None:
        before, values = "(run_after IS NOT NULL OR id < %s)", (pk,)
    else:
        before, values = "(run_after < %s OR (run_after = %s AND id < %s))", (due, due, pk)
    return int(sql.value(_OLDER.format(before=before), [route.pk, *values, MAX_OLDER]))


class _Others(NamedTuple):
    """Other routes whose work starts before it: at most `turns` executions of each."""

    served: str
    moments: tuple[datetime, ...]
    turns: int
    resumed: bool


class _Counted(NamedTuple):
    """Of the other routes of one kind: the executions counted, in total and on the longest route."""

    turns: int
    routes: int
    total: int | None
    longest: int | None

    @property
    def cut_off(self) -> bool:
        return self.routes >= MAX_ROUTES or self.turns > MAX_PER_ROUTE <= (self.longest or 0)


def _count(others: Iterable[_Others], route: Route, due: datetime) -> tuple[int, bool]:
    """How many start before it on other routes; whether some were not counted."""
    arms: list[str] = []
    parameters: list[Any] = []
    for o in others:
        if o.turns:
            most = min(o.turns, MAX_PER_ROUTE)
            arms.append(_OF_OTHERS.format(served=o.served, turns=o.turns, most=most, routes=MAX_ROUTES))
            parameters += due, route.phase, route.priority, o.resumed, route.pk, route.parked_on, *o.moments
    counted = sql.rows(_Counted, " UNION ALL ".join(arms), parameters)
    return sum(int(row.total or 0) for row in counted), any(row.cut_off for row in counted)


_PLAIN = ("queue", "position", "starts_at", "finishes_at", "can_change_at")
_RANGED: Mapping[str, Kind] = {"starts_at": "start", "finishes_at": "end of one"}
_NOTHING = dict.fromkeys((*_PLAIN, *(f"{name}_{end}" for name in _RANGED for end in ("p10", "p90"))))


def serialize(execution: Execution) -> dict[str, Any]:
    """Why it waits, its position and its estimate: plain data with stable names."""
    route_reasons = explain.reasons()
    estimated = estimate(execution, route_reasons)
    stopped = route_reasons.by_route.get(execution.route_id or 0, ()) if estimated else ()
    return {
        "key": execution.key,
        "flow": execution.flow,
        "status": execution.status,
        "why": route_reasons.of(execution),
        "reasons": [{"limit": r.limit, "reason": r.text, "kind": r.kind, "until": r.until} for r in stopped],
        "not_before": route_reasons.not_before(execution),
        **(estimated.as_data(route_reasons.now) if estimated else _NOTHING),
        "position_is_at_least": bool(estimated and estimated.position_is_at_least),
        "started_lately": estimated and estimated.recent_starts.count,
        "started_lately_seconds": estimated and round(estimated.recent_starts.seconds),
        "unknown": estimated.unknown if estimated else "",
    }
