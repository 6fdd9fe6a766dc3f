"""What starts now, and why each other thing waits: one pure decision over every limit at once.

No database, no clock, no Celery: `admit(snapshot)` can be tested with generated cases, explained to
a person and replayed on old data. A start must pass every limit on its route; the order of routes is
priority, resumed before new, phase rank, the route served longest ago, age.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from queuemgr.capacity import Capacity, Group
from queuemgr.flow import HIGH, queue_name

FLEET = "fleet"


@dataclass(frozen=True, slots=True)
class WaitingRoute:
    """Waiting work of one kind, as admission sees it.

    `due` counts its executions that may start now, up to what there is room for; `head_at` is when
    the first of them fell due (or will).
    """

    id: int
    phase: str
    priority: int
    resumed: bool
    limit_key: str
    cost: int
    weight: int
    due: int
    head_at: datetime
    served_at: datetime
    phase_rank: int = 0

    @property
    def queue(self) -> str:
        return queue_name(self.phase, self.priority)

    @property
    def limits(self) -> tuple[str, ...]:
        """The names of the limits it must pass, widest first."""
        names = (FLEET, f"phase:{self.phase}")
        return (*names, self.limit_key) if self.limit_key else names


@dataclass(frozen=True, slots=True)
class Rule:
    """The figures of one limit; 0 or None is no limit. `paused` is a sentence, or empty."""

    max_running: int = 0
    reserved_high: int = 0
    daily_budget: int | None = None
    paused: str = ""
    paused_until: datetime | None = None


@dataclass(slots=True)
class Use:
    """What stands against a limit: weights of running work, of it below high, and requests."""

    running: int = 0
    below_high: int = 0
    spent: int = 0
    reserved: int = 0


@dataclass(frozen=True, slots=True)
class Reason:
    """One limit that stopped a route, in a sentence, and the earliest time that could change."""

    limit: str
    text: str
    until: datetime | None = None


@dataclass(frozen=True)
class Snapshot:
    """All that admission looks at, read in one transaction under the fleet's lock."""

    now: datetime
    routes: tuple[WaitingRoute, ...]
    rules: Mapping[str, Rule]
    use: Mapping[str, Use]
    paused_queues: Mapping[str, Reason]
    idle: Mapping[Group, int]
    on_their_way: Mapping[str, int]
    day_ends: datetime | None = None

    def rule(self, name: str) -> Rule:
        """The rule of a limit: its own, else that of the longest pattern that matches, else none."""
        own = self.rules.get(name)
        if own is not None:
            return own
        patterns = (p for p in self.rules if p.endswith("*") and name.startswith(p[:-1]))
        best = max(patterns, key=len, default=None)
        return self.rules[best] if best else NO_RULE


NO_RULE = Rule()


@dataclass(frozen=True)
class Decision:
    """Routes to start, in order (one entry a start), why the others wait, and what is left idle."""

    starts: tuple[int, ...]
    reasons: Mapping[int, tuple[Reason, ...]]
    capacity: Capacity = field(compare=False)


def admit(snapshot: Snapshot) -> Decision:
    """Decide what starts now. Cost: active routes plus starts, each times the log of the routes."""
    room = _Room(snapshot)
    starts: list[int] = []
    reasons: dict[int, tuple[Reason, ...]] = {}
    turns = [(_turn(route), route, route.due) for route in snapshot.routes]
    heapq.heapify(turns)
    while turns:
        _, route, due = heapq.heappop(turns)
        stopped = room.why_not(route) if due else (_not_due(route),)
        if stopped:
            reasons[route.id] = stopped
            continue
        room.take(route)
        starts.append(route.id)
        if due > 1:
            heapq.heappush(turns, (_turn(route, served=len(starts)), route, due - 1))
    return Decision(tuple(starts), reasons, room.capacity)


def _turn(route: WaitingRoute, served: int = 0) -> tuple[object, ...]:
    """The order of starts. A route served in this decision goes behind those not served in it."""
    rank = (route.priority, not route.resumed, route.phase_rank)
    return (*rank, served, route.served_at, route.head_at, route.id)


def _not_due(route: WaitingRoute) -> Reason:
    return Reason("run_after", f"due at {route.head_at:%Y-%m-%d %H:%M:%S} UTC", route.head_at)


class _Room:
    """The room left as starts are granted; it only ever shrinks, so a refusal stays true."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._rules: dict[str, Rule] = {}
        self._taken: defaultdict[str, Use] = defaultdict(Use)
        for name, use in snapshot.use.items():
            self._taken[name] = Use(use.running, use.below_high, use.spent, use.reserved)
        self.capacity = Capacity(snapshot.idle, snapshot.on_their_way)

    def why_not(self, route: WaitingRoute) -> tuple[Reason, ...]:
        """Every limit that stops this route; with none, an idle slot is matched with it."""
        stopped = [*self._pauses(route), *self._full(route)]
        if not stopped and not self.capacity.take(route.queue):
            stopped.append(self._no_slot(route))
        return tuple(stopped)

    def take(self, route: WaitingRoute) -> None:
        for name in route.limits:
            use = self._taken[name]
            use.running += route.weight
            use.below_high += route.weight if route.priority != HIGH else 0
            use.reserved += route.cost

    def _rule(self, name: str) -> Rule:
        if name not in self._rules:
            self._rules[name] = self._snapshot.rule(name)
        return self._rules[name]

    def _pauses(self, route: WaitingRoute) -> Iterable[Reason]:
        queue = self._snapshot.paused_queues.get(route.queue)
        if queue:
            yield queue
        for name in route.limits:
            rule = self._rule(name)
            if rule.paused:
                yield Reason(name, f"{name} {rule.paused}", rule.paused_until)

    def _full(self, route: WaitingRoute) -> Iterable[Reason]:
        for name in route.limits:
            rule, use = self._rule(name), self._taken[name]
            yield from _concurrency(name, rule, use, route)
            yield from _budget(name, rule, use, route, self._snapshot.day_ends)

    def _no_slot(self, route: WaitingRoute) -> Reason:
        consumed = any(route.queue in group for group in self._snapshot.idle)
        busy = f"every slot of the workers on {route.queue} is busy"
        return Reason("workers", busy if consumed else f"no live worker consumes {route.queue}")


def _concurrency(name: str, rule: Rule, use: Use, route: WaitingRoute) -> Iterable[Reason]:
    """`>=` blocks, so a limit lowered while busy only drains; below high, the reserve is closed."""
    if not rule.max_running:
        return
    if use.running + route.weight > rule.max_running:
        over = use.running - rule.max_running
        note = f", over its cap by {over}" if over > 0 else ""
        yield Reason(name, f"{name} {use.running}/{rule.max_running}{note}")
    elif (
        route.priority != HIGH
        and use.below_high + route.weight > rule.max_running - rule.reserved_high
    ):
        open_to_all = rule.max_running - rule.reserved_high
        text = f"{name} {use.below_high}/{open_to_all} open to work below high, {rule.reserved_high} reserved"
        yield Reason(name, text)


def _budget(
    name: str, rule: Rule, use: Use, route: WaitingRoute, day_ends: datetime | None
) -> Iterable[Reason]:
    if rule.daily_budget is None or not route.cost:
        return
    if use.spent + use.reserved + route.cost > rule.daily_budget:
        held = f" and {use.reserved} reserved" if use.reserved else ""
        text = f"{name} budget {use.spent}/{rule.daily_budget} spent{held}, resets 00:00 UTC"
        yield Reason("budget", text, day_ends)


def count_starts(decision: Decision) -> Counter[int]:
    """How many starts each route was granted."""
    return Counter(decision.starts)
